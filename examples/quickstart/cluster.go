package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

func newLogger(w io.Writer) *log.Logger { return log.New(w, "", log.LstdFlags) }

// connect installs the CRDs, waits until the API server serves the CRDs, and returns a client.
func connect(ctx context.Context, cfg *rest.Config) (client.WithWatch, error) {
	c, err := manager.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return c, config.InstallCRDs(ctx, c)
}

// writes counts the controllers' successful writes of Pods and their subresources in the audit log, from an offset on,
// by the kind of write.
func writes(auditLog string, from int64) (byKind map[string]int, size int64, err error) {
	requests, size, err := audit.Read(auditLog, from, "kruise-manager/")
	byKind = map[string]int{}
	for _, r := range requests {
		if r.IsWrite() && r.Code < 300 && (r.Resource == "pods" || strings.HasPrefix(r.Resource, "pods/")) {
			byKind[r.String()]++
		}
	}
	return byKind, size, err
}

// watchPods passes the events of all Pods in the namespace to w, until ctx ends.
func watchPods(ctx context.Context, c client.WithWatch, w *world, namespace string, changed func()) error {
	watcher, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching Pods: %w", err)
	}
	go func() {
		defer watcher.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-watcher.ResultChan():
				if !ok {
					return
				}
				if pod, isPod := event.Object.(*corev1.Pod); isPod {
					w.observe(event.Type, pod)
					changed()
				}
			}
		}
	}()
	return nil
}
