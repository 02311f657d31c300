// Command pause holds a pod's namespaces open.
//
// It runs as PID 1 of the sandbox. When a pod shares its process namespace
// (shareProcessNamespace), orphans of the other containers are handed to it, so
// it must reap them. It leaves at once on SIGTERM or SIGINT: a PID 1 gets no
// default action for signals, and without a handler each pod would take its
// whole grace period to stop.
package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	// Children may have ended between our start and Notify.
	reap()
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended. Signals merge, so one SIGCHLD may
// stand for several children.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
	}
}
