"""Programs that make files of this repository; the Makefile calls them."""
