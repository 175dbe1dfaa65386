package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/workloadkit/workloadkit/testing/child"
)

// offer describes a running control plane to processes that want to join it.
type offer struct {
	Nodes          int             `json:"nodes"`
	AuditLog       string          `json:"auditLog,omitempty"`
	APIServerFlags []string        `json:"apiServerFlags,omitempty"`
	FeatureGates   map[string]bool `json:"featureGates,omitempty"`
}

func writeOffer(l layout, opts Options) error {
	data, err := json.Marshal(offer{max(opts.Nodes, 0), opts.AuditLog, opts.APIServerFlags, opts.FeatureGates})
	if err != nil {
		return fmt.Errorf("say what the control plane has: %w", err)
	}
	if err := os.WriteFile(l.offer(), data, 0o600); err != nil {
		return fmt.Errorf("say what the control plane has: %w", err)
	}
	return nil
}

// Join returns the control plane that another process has started in opts.Dir. The control plane must fulfil the
// options: at least as many Nodes, an audit log (at any path) if the options name an audit log, and the same flags
// and feature gates. Otherwise the error says what is missing. Binaries and Progress are not used. Stop does not stop
// a joined control plane, and its API server cannot be stopped.
func Join(ctx context.Context, opts Options) (*ControlPlane, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, fmt.Errorf("join control plane: %w", err)
	}
	l := layout{dir: opts.Dir}
	data, err := os.ReadFile(l.offer())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("join control plane: none runs in %s", l.dir)
	}
	var has offer
	if err == nil {
		err = json.Unmarshal(data, &has)
	}
	if err == nil {
		err = has.check(opts)
	}
	if err != nil {
		return nil, fmt.Errorf("join control plane in %s: %w", l.dir, err)
	}
	opts.AuditLog = has.AuditLog
	cp := &ControlPlane{opts: opts, layout: l, running: map[string]*child.Process{}, died: make(chan struct{})}
	admin, err := clientcmd.LoadFromFile(l.kubeconfig())
	if err == nil {
		cp.config, err = restConfig(admin)
	}
	if err == nil {
		cp.client, err = kubernetes.NewForConfig(cp.config)
	}
	if err == nil {
		err = cp.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	if err != nil {
		return nil, fmt.Errorf("join control plane in %s: %w", l.dir, err)
	}
	return cp, nil
}

// check returns an error that says what is missing, or nil.
func (o offer) check(want Options) error {
	var errs []error
	if o.Nodes < want.Nodes {
		errs = append(errs, fmt.Errorf("it has %d nodes, want %d or more", o.Nodes, want.Nodes))
	}
	if want.AuditLog != "" && o.AuditLog == "" {
		errs = append(errs, errors.New("it has no audit log"))
	}
	if !slices.Equal(o.APIServerFlags, want.APIServerFlags) {
		errs = append(errs, fmt.Errorf("its API server has the flags %q, want %q", o.APIServerFlags, want.APIServerFlags))
	}
	if !maps.Equal(o.FeatureGates, want.FeatureGates) {
		errs = append(errs, fmt.Errorf("it has the feature gates %v, want %v", o.FeatureGates, want.FeatureGates))
	}
	return errors.Join(errs...)
}
