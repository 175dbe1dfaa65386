package main

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controlplane/audit"
	"github.com/workloadkit/workloadkit/examples/manager"
)

func connect(ctx context.Context, cfg *rest.Config) (client.Client, error) {
	c, err := manager.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return c, config.InstallCRDs(ctx, c)
}

// requests counts the manager's requests since the offset, divided by the number of Pods. Leases and watches do not grow with
// Pods and are left out.
func requests(auditLog string, offset int64, agent string, pods int) (perPod map[string]float64, next int64, err error) {
	all, next, err := audit.Read(auditLog, offset, agent)
	perPod = map[string]float64{}
	for _, r := range all {
		if r.Resource != "" && r.Resource != "leases" && r.Verb != "watch" {
			perPod[r.String()] += 1 / float64(pods)
		}
	}
	return perPod, next, err
}
