package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// move is the state of a run of the command that moves replicas.
type move struct {
	genericiooptions.IOStreams

	factory          cmdutil.Factory
	clock            clock.WithTicker
	from             string
	source, target   string
	create, copy     bool
	replicas, surge  int64
	timeout          int64
	sources, targets dynamic.ResourceInterface
	version          string
}

// NewCommand returns the command.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.WithTicker) *cobra.Command {
	m := &move{IOStreams: streams, factory: f, clock: clk}
	cmd := &cobra.Command{
		Use:   "migrate CloneSet --from Deployment -n NAMESPACE --src-name NAME [--dst-name NAME]",
		Short: "Create a CloneSet from a Deployment, or move replicas to the CloneSet",
		Example: "  kubectl kruise migrate CloneSet --from Deployment -n default --src-name web --dst-name web --create\n" +
			"  kubectl kruise migrate CloneSet --from Deployment -n default --src-name web --dst-name web --replicas 10 --max-surge 2",
		ValidArgs: []string{"CloneSet"},
		RunE:      func(cmd *cobra.Command, args []string) error { return m.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&m.from, "from", "", "The kind of the source: Deployment.")
	flags.StringVar(&m.source, "src-name", "", "The name of the Deployment.")
	flags.StringVar(&m.target, "dst-name", "", "The name of the CloneSet; by default the name of the Deployment.")
	flags.BoolVar(&m.create, "create", false, "Create the CloneSet, without Pods, and move nothing.")
	flags.BoolVar(&m.copy, "copy", false, "With --create: give the CloneSet as many replicas as the Deployment has.")
	flags.Int64Var(&m.replicas, "replicas", -1, "How many replicas to move; -1 is all.")
	flags.Int64Var(&m.surge, "max-surge", 1, "How many more Pods than before there may be.")
	flags.Int64Var(&m.timeout, "timeout-seconds", -1, "After which time to give up; -1 is never.")
	for flag, complete := range map[string]cobra.CompletionFunc{
		"from":     cobra.FixedCompletions([]string{"Deployment"}, cobra.ShellCompDirectiveNoFileComp),
		"src-name": completion.ResourceNameCompletionFunc(f, "deployment"),
		"dst-name": completion.ResourceNameCompletionFunc(f, "cloneset"),
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flags are defined above
		}
	}
	return cmd
}

func (m *move) run(ctx context.Context, args []string) error {
	namespace, explicit, err := m.factory.ToRawKubeConfigLoader().Namespace()
	switch {
	case err != nil:
		return err
	case len(args) != 1 || args[0] != "CloneSet" || m.from != "Deployment":
		return errors.New("only CloneSet --from Deployment is supported")
	case !explicit:
		return errors.New("--namespace is required")
	case m.source == "":
		return errors.New("--src-name is required")
	case m.copy && !m.create:
		return errors.New("--copy needs --create")
	case m.surge < 1:
		return fmt.Errorf("--max-surge: %d is below 1", m.surge)
	}
	if m.target == "" {
		m.target = m.source
	}
	if err := m.connect(namespace); err != nil {
		return err
	}
	if m.create {
		return m.make(ctx)
	}
	if m.timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(m.timeout)*time.Second)
		defer cancel()
	}
	return m.transfer(ctx)
}

func (m *move) connect(namespace string) error {
	client, err := m.factory.DynamicClient()
	if err != nil {
		return err
	}
	mapper, err := m.factory.ToRESTMapper()
	if err != nil {
		return err
	}
	cloneSets, err := mapper.RESTMapping(schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"})
	if err != nil {
		return err
	}
	m.version = cloneSets.GroupVersionKind.Version
	m.targets = client.Resource(cloneSets.Resource).Namespace(namespace)
	m.sources = client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace)
	return nil
}

// make creates the CloneSet.
func (m *move) make(ctx context.Context) error {
	source, err := m.sources.Get(ctx, m.source, metav1.GetOptions{})
	if err != nil {
		return err
	}
	target, err := Twin(source, m.target, m.version, m.copy)
	if err != nil {
		return err
	}
	if _, err = m.targets.Create(ctx, target, metav1.CreateOptions{FieldManager: "kubectl-kruise"}); apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("CloneSet %s already exists", m.target)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.Out, "CloneSet %s created with %d replicas\n", m.target, fields.Int(target.Object, "spec.replicas"))
	return err
}

// transfer moves replicas step by step.
func (m *move) transfer(ctx context.Context) error {
	source, err := m.sources.Get(ctx, m.source, metav1.GetOptions{})
	if err != nil {
		return err
	}
	c := Counts{Source: fields.IntOr(source.Object, 1, "spec.replicas"), MaxSurge: m.surge}
	if c.Total = c.Source; m.replicas >= 0 {
		c.Total = min(m.replicas, c.Source)
	}
	ticker := m.clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		target, err := m.targets.Get(ctx, m.target, metav1.GetOptions{})
		if err != nil {
			return m.failed(ctx, err, c)
		}
		c.IsAvailable = fields.Int(target.Object, "status.observedGeneration") >= target.GetGeneration() &&
			fields.Int(target.Object, "status.availableReplicas") >= fields.IntOr(target.Object, 1, "spec.replicas")
		step := Next(c)
		if err := m.carryOut(ctx, step, &c); err != nil {
			return m.failed(ctx, err, c)
		}
		if step.Done {
			_, err := fmt.Fprintf(m.Out, "%d replicas moved from Deployment %s to CloneSet %s\n", c.Removed, m.source, m.target)
			return err
		}
		if step != (Step{}) {
			continue
		}
		select {
		case <-ctx.Done():
			return m.failed(ctx, ctx.Err(), c)
		case <-ticker.C():
		}
	}
}

func (m *move) failed(ctx context.Context, err error, c Counts) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("timed out after %d s: CloneSet %s has grown by %d, Deployment %s has shrunk by %d", m.timeout, m.target, c.Added, m.source, c.Removed)
	}
	return err
}

func (m *move) carryOut(ctx context.Context, step Step, c *Counts) error {
	switch {
	case step.Add > 0:
		if err := grow(ctx, m.targets, m.target, step.Add); err != nil {
			return err
		}
		c.Added += step.Add
	case step.Remove > 0:
		if err := grow(ctx, m.sources, m.source, -step.Remove); err != nil {
			return err
		}
		c.Removed, c.Source = c.Removed+step.Remove, c.Source-step.Remove
	default:
		return nil
	}
	_, err := fmt.Fprintf(m.Out, "CloneSet %s +%d, Deployment %s -%d, of %d\n", m.target, c.Added, m.source, c.Removed, c.Total)
	return err
}

// grow changes the number of replicas of a workload.
func grow(ctx context.Context, client dynamic.ResourceInterface, name string, by int64) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		u, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := fields.Set(u.Object, max(fields.IntOr(u.Object, 1, "spec.replicas")+by, 0), "spec.replicas"); err != nil {
			return err
		}
		_, err = client.Update(ctx, u, metav1.UpdateOptions{FieldManager: "kubectl-kruise"})
		return err
	})
}

// Twin returns the CloneSet for a Deployment, in the given API version. The CloneSet has 0 replicas unless copied is
// true, and recreates Pods for an update, as the Deployment does.
func Twin(source *unstructured.Unstructured, name, version string, copied bool) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: fields.Object{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.kruise.io", Version: version, Kind: "CloneSet"})
	u.SetName(name)
	u.SetNamespace(source.GetNamespace())
	u.SetLabels(source.GetLabels())
	annotations := source.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	delete(annotations, "deployment.kubernetes.io/revision")
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
	u.SetFinalizers(source.GetFinalizers())
	replicas := int64(0)
	if copied {
		replicas = fields.IntOr(source.Object, 1, "spec.replicas")
	}
	failures := []error{fields.Set(u.Object, replicas, "spec.replicas")}
	for _, path := range []string{"spec.selector", "spec.template", "spec.revisionHistoryLimit", "spec.minReadySeconds"} {
		if value, found := fields.At(source.DeepCopy().Object, path); found {
			failures = append(failures, fields.Set(u.Object, value, path))
		}
	}
	strategy, policy := "spec.updateStrategy.rollingUpdate.", "podUpdatePolicy"
	if version == "v1alpha1" {
		strategy, policy = "spec.updateStrategy.", "type"
	}
	failures = append(failures, fields.Set(u.Object, "ReCreate", strategy+policy))
	for to, from := range map[string]string{
		"paused": "spec.paused", "maxUnavailable": "spec.strategy.rollingUpdate.maxUnavailable", "maxSurge": "spec.strategy.rollingUpdate.maxSurge",
	} {
		if value, found := fields.At(source.Object, from); found {
			failures = append(failures, fields.Set(u.Object, value, strategy+to))
		}
	}
	return u, errors.Join(failures...)
}
