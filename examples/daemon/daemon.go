// Package daemon runs the agent of a Node in place of OpenKruise's daemon. The agent restarts containers for
// ContainerRecreateRequests, pulls the images of the NodeImage, and runs the probes of PodProbeMarkers. For
// containers whose environment contains values of the Pod's labels or annotations, the agent reports the values with
// which the containers run.
//
// If a container runtime, a CRD or the API server is unavailable, the agent waits: [Daemon.Waiting] returns the
// reasons.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/daemon/images"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/onnode"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// Options are the options of a Daemon.
type Options struct {
	// Node is the name of the Node. Required.
	Node string
	// Sockets says where to find the sockets of the container runtimes.
	Sockets Sockets
	// Images configures the pulls of images; the zero value allows no pull.
	Images Images
	// Registry registers the metrics; nil means that there are no metrics.
	Registry prometheus.Registerer
}

// Sockets says where to find the sockets of the container runtimes.
type Sockets struct {
	// File is the path of a socket: an absolute path, or a name in the directory Run. If File is empty, the agent
	// tries the endpoint in the kubelet's configuration, and all usual paths.
	File string
	// Run is the directory in the agent's container at which the Node's /var/run is mounted. If the directory does
	// not exist, the agent uses the Node's own paths.
	Run string
	// KubeletConfig is the path of the kubelet's configuration. A missing file is not an error.
	KubeletConfig string
}

// Paths returns the socket paths to try, as paths in the agent's own file system.
func (s Sockets) Paths() []string {
	switch {
	case filepath.IsAbs(s.File):
		return []string{s.File}
	case s.File != "":
		return []string{filepath.Join(s.Run, s.File)}
	}
	var endpoints []string
	if data, err := os.ReadFile(s.KubeletConfig); err == nil {
		if endpoint, err := cri.KubeletEndpoint(data); err == nil && endpoint != "" {
			endpoints = append(endpoints, endpoint)
		}
	}
	endpoints = append(endpoints, cri.Usual()...)
	if info, err := os.Stat(s.Run); err == nil && info.IsDir() {
		return cri.Paths(endpoints, cri.Mount{Node: "/var/run", Agent: s.Run})
	}
	return cri.Paths(endpoints)
}

// Daemon is the agent of a Node. Make a Daemon with New.
type Daemon struct {
	agent    *agent.Agent
	requests *onnode.Watched
	images   *images.Agent
	probes   *probes
}

// New returns the agent of a Node; config says how to reach the API server. New sends no request.
func New(config *rest.Config, o Options) (*Daemon, error) {
	d := &Daemon{}
	var err error
	if d.requests, err = onnode.NewWatched(config, o.Node, func(pod types.NamespacedName) { d.agent.Wake(pod) }); err != nil {
		return nil, err
	}
	ways, err := NewWays(config, o.Node, d.requests)
	if err != nil {
		return nil, err
	}
	counts, err := newMetrics(o.Registry, d.Waiting)
	if err != nil {
		return nil, err
	}
	ways.Restarts.Done = counts.restarted
	runtimes := cri.NewRuntimes(o.Sockets.Paths)
	if d.images, err = newImages(config, o.Node, o.Images, runtimes, counts); err != nil {
		return nil, err
	}
	runtimes.OnChange(func(context.Context) { d.images.Wake() })
	if d.probes, err = newProbes(config, o.Node, runtimes); err != nil {
		return nil, err
	}
	d.agent, err = agent.New(config, o.Node, Work(ways), agent.Options{
		WorkerOptions: agent.WorkerOptions{HookFailed: ways.HookFailed}, Runtimes: runtimes,
	})
	return d, err
}

// Ways contains the functions with which an agent reads from and writes to the API server.
type Ways struct {
	Requests onnode.Requests
	Restarts onnode.Options
	// Report sends a strategic merge patch for the status of a Pod.
	Report func(ctx context.Context, pod types.NamespacedName, patch []byte) error
}

// NewWays returns the Ways of a Node's agent. requests reads and writes the ContainerRecreateRequests.
func NewWays(config *rest.Config, node string, requests onnode.Requests) (Ways, error) {
	sink, err := newEvents(config, node)
	if err != nil {
		return Ways{}, err
	}
	client, err := agent.NewClient(config)
	if err != nil {
		return Ways{}, fmt.Errorf("reports of the agent: %w", err)
	}
	return Ways{
		Requests: requests, Restarts: onnode.Options{Tell: sink.tell},
		Report: func(ctx context.Context, pod types.NamespacedName, patch []byte) error {
			return client.Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
				SubResource("status").Body(patch).Do(ctx).Error()
		},
	}, nil
}

// HookFailed records an event about a failed preStop hook: see agent.WorkerOptions.
func (w Ways) HookFailed(ctx context.Context, pod reason.Object, container string, err error) {
	w.Restarts.Tell(ctx, onnode.HookFailed(pod, container, err))
}

// Work returns the agent.Work for a Pod: restarts of containers, and reports about labels and annotations in the
// environments of containers.
func Work(w Ways) agent.Work {
	return both(onnode.New(w.Requests, w.Restarts).Work, newMetadata(w.Report).work)
}

// both returns work that calls first and then second for a Pod. second is called even if first returns an error.
func both(first, second agent.Work) agent.Work {
	return func(ctx context.Context, pod *agent.Pod) (again time.Duration, err error) {
		again, err = first(ctx, pod)
		after, failed := second(ctx, pod)
		if again <= 0 || after > 0 && after < again {
			again = after
		}
		return again, errors.Join(err, failed)
	}
}

// Run runs the agent until the context ends. If a server that the agent needs is unavailable, Run waits and returns
// no error, and Waiting says what is unavailable.
func (d *Daemon) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { _ = d.requests.Start(ctx) }) // Start never returns an error
	all.Go(func() { _ = d.images.Start(ctx) })
	all.Go(func() { _ = d.probes.lists.Start(ctx) })
	all.Go(func() { _ = d.probes.runner.Start(ctx) })
	err := d.agent.Run(ctx)
	all.Wait()
	return err
}

// Waiting returns the reasons why the agent waits; nil if the agent does not wait.
func (d *Daemon) Waiting() reason.List {
	why := d.agent.Waiting()
	for _, missing := range []reason.Reason{d.requests.Missing(), d.images.Missing(), d.probes.lists.Missing()} {
		if missing.Code != "" {
			why = append(why, missing)
		}
	}
	return why
}
