module pdinference.dev/e2e/lab/pause

go 1.26.0
