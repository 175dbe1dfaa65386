package daemon

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/kinds/nodepodprobe/onnode"
	"github.com/workloadkit/workloadkit/node/cri"
)

// probes runs the probes in the NodePodProbe of the Node.
type probes struct {
	lists  *onnode.Watched
	runner *onnode.Probes
}

func newProbes(config *rest.Config, node string, runtimes *cri.Runtimes) (*probes, error) {
	sink, err := newEvents(config, node)
	if err != nil {
		return nil, err
	}
	p := &probes{}
	if p.lists, err = onnode.NewWatched(config, node, func() { p.runner.Wake() }); err != nil {
		return nil, fmt.Errorf("probes of Node %s: %w", node, err)
	}
	p.runner = onnode.New(p.lists, runtimes, onnode.Options{Tell: func(ctx context.Context, e onnode.Event) {
		sink.send(ctx, sourceProbes, ofContainer(e.Pod, e.Container), e.Type, e.Reason, e.Message)
	}})
	return p, nil
}
