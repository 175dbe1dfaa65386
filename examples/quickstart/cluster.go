package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
)

func newLogger(w io.Writer) *log.Logger { return log.New(w, "", log.LstdFlags) }

// connect installs the CRDs and waits until the API server serves them.
func connect(ctx context.Context, cfg *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := manager.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering API types: %w", err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	files, err := config.CRDs.ReadDir("crd")
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	for _, file := range files {
		raw, err := config.CRDs.ReadFile("crd/" + file.Name())
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		if err := install(ctx, c, raw); err != nil {
			return nil, fmt.Errorf("installing %s: %w", file.Name(), err)
		}
	}
	return c, nil
}

func install(ctx context.Context, c client.Client, manifest []byte) error {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &crd.Object); err != nil {
		return err
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd.DeepCopy()), client.FieldOwner("quickstart"), client.ForceOwnership)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
		if err != nil {
			return false, nil //nolint:nilerr // null until the API server has looked at the CRD
		}
		for _, item := range conditions {
			if condition, ok := item.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
}

// writes counts the controllers' successful writes of Pods and their subresources since the log had the given size.
func writes(auditLog string, from int64) (byKind map[string]int, size int64, err error) {
	file, err := os.Open(auditLog)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("reading the audit log: %w", err)
	}
	byKind = map[string]int{}
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil { // the end, or a line that is being written
			return byKind, from, nil
		}
		from += int64(len(line))
		var event struct {
			Verb, UserAgent string
			ObjectRef       struct{ Resource, Subresource string }
			ResponseStatus  struct{ Code int }
		}
		if json.Unmarshal(line, &event) != nil || !strings.HasPrefix(event.UserAgent, "kruise-manager/") ||
			event.ObjectRef.Resource != "pods" || event.ResponseStatus.Code >= 300 {
			continue
		}
		switch event.Verb {
		case "create", "update", "patch", "delete":
			name := strings.TrimSuffix(event.Verb+" pods/"+event.ObjectRef.Subresource, "/")
			byKind[name]++
		}
	}
}

// watchPods keeps the world up to date until ctx ends.
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
