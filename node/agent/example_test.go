package agent_test

import (
	"context"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/containerrestart"
)

// This agent restarts the container app in place if its instance has started before the time in an annotation of the
// Pod.
func Example() {
	_ = func(ctx context.Context, config *rest.Config) error {
		a, err := agent.New(config, os.Getenv("NODE_NAME"), restart, agent.Options{})
		if err != nil {
			return err
		}
		return a.Run(ctx)
	}
}

func restart(ctx context.Context, pod *agent.Pod) (again time.Duration, err error) {
	since, err := time.Parse(time.RFC3339, pod.Annotations["example.com/restart-older-than"])
	if err != nil {
		return 0, nil //nolint:nilerr // without a valid time in the annotation, no restart is requested
	}
	observed, err := pod.Observe(ctx)
	if err != nil {
		return 0, err
	}
	app := containerrestart.Container{Name: "app"}
	for _, instance := range observed.Instances {
		if instance.Name == app.Name && instance.Started.Before(since) {
			app.Before = instance.ID // the instance to replace, which may have ended already
			break                    // the newest instance of a container comes first
		}
	}
	step := containerrestart.Next(containerrestart.Request{Started: since, Containers: []containerrestart.Container{app}}, observed, time.Now())
	return step.After, pod.Begin(step, nil)
}
