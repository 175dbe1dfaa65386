package rollout

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"

	kruiseapps "github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/examples/cli/progress"
)

// newWatch returns the command with the live table of a rollout. On a terminal, each table replaces the table before;
// in any other output, tables are appended.
func newWatch(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	s := &status{IOStreams: streams, factory: f, clock: clk, watch: true}
	var every time.Duration
	cmd := &cobra.Command{
		Use:     "watch (TYPE NAME | TYPE/NAME)",
		Short:   "Show the Pods of a rollout, live, until the rollout has ended or needs help",
		Long:    "Show the Pods of a rollout, live. The exit codes are those of rollout status.",
		Example: "  kubectl kruise rollout watch cloneset/web",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.show(cmd.Context(), args, every)
		},
	}
	cmd.Flags().DurationVar(&s.timeout, "timeout", 0, "The length of time to wait before ending watch, zero means never.")
	cmd.Flags().DurationVar(&every, "every", time.Second, "How often the Pods are read.")
	return cmd
}

func (s *status) show(ctx context.Context, args []string, every time.Duration) error {
	o := operate.Options{IOStreams: s.IOStreams, Factory: s.factory}
	infos, err := o.Infos(args)
	if err != nil {
		return err
	}
	if len(infos) != 1 {
		return fmt.Errorf("rollout watch shows a single workload: %d were found", len(infos))
	}
	client, err := s.factory.DynamicClient()
	if err != nil {
		return err
	}
	watched := ctx
	if s.timeout > 0 {
		var cancel context.CancelFunc
		watched, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	last, drawn := progress.Progress{State: progress.Running}, ""
	err = follow(watched, client.Resource(infos[0].Mapping.Resource).Namespace(infos[0].Namespace), infos[0].Name, max(every, 100*time.Millisecond),
		func(u *unstructured.Unstructured) (bool, error) {
			var err error
			if last, err = s.judge(u); err != nil {
				return false, err
			}
			pods, err := s.pods(watched, u)
			if err != nil {
				return false, err
			}
			if text := Table(last, pods, u, s.clock.Now()); text != drawn {
				draw(s.Out, text)
				drawn = text
			}
			return last.State != progress.Running, nil
		})
	return s.end(ctx, err, last)
}

// pods returns the Pods controlled by a workload, sorted by name. For a Deployment, these are the Pods of its
// ReplicaSets. For a UnitedDeployment, these are the Pods that its selector matches, because other workloads control
// the Pods.
func (s *status) pods(ctx context.Context, u *unstructured.Unstructured) ([]corev1.Pod, error) {
	clients, err := s.factory.KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	owners, options := map[types.UID]bool{u.GetUID(): true}, metav1.ListOptions{}
	switch u.GetKind() {
	case "UnitedDeployment":
		selector, err := fields.Selector(u.Object, "spec.selector")
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		options.LabelSelector = selector.String()
	case "Deployment":
		sets, err := clients.AppsV1().ReplicaSets(u.GetNamespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range sets.Items {
			if metav1.IsControlledBy(&sets.Items[i], u) {
				owners[sets.Items[i].UID] = true
			}
		}
	}
	all, err := clients.CoreV1().Pods(u.GetNamespace()).List(ctx, options)
	if err != nil {
		return nil, err
	}
	pods := slices.DeleteFunc(all.Items, func(pod corev1.Pod) bool {
		controller := metav1.GetControllerOfNoCopy(&pod)
		return options.LabelSelector == "" && (controller == nil || !owners[controller.UID])
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// Table renders a rollout with its Pods, at most 80 columns wide for names of usual length.
func Table(p progress.Progress, pods []corev1.Pod, u *unstructured.Unstructured, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p.Text)
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tREVISION\tREADY\tSTATE\tRESTARTS\tAGE")
	for i := range pods {
		pod := &pods[i]
		restarts := int32(0)
		for _, c := range pod.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		fmt.Fprintf(table, "%s\t%s\t%t\t%s\t%d\t%s\n", pod.Name, shortRevision(pod, u.GetName()), isReady(pod), podState(pod),
			restarts, duration.HumanDuration(now.Sub(pod.CreationTimestamp.Time)))
	}
	_ = table.Flush() // a strings.Builder accepts every write
	return b.String()
}

func shortRevision(pod *corev1.Pod, owner string) string {
	revision := strings.TrimPrefix(pod.Labels[kruiseapps.LabelRevision], owner+"-")
	if revision == "" {
		return pod.Labels["pod-template-hash"]
	}
	return revision
}

// podState returns the most informative word about a Pod's state: Terminating, the reason of a waiting container, the
// lifecycle state, or the phase.
func podState(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
			return c.State.Waiting.Reason
		}
	}
	if state := pod.Labels[kruiseapps.LabelLifecycleState]; state != "" && state != kruiseapps.LifecycleNormal {
		return state
	}
	return string(pod.Status.Phase)
}

// draw writes a table: over the last table on a terminal that allows colours, and below the last table in any other
// output.
func draw(out io.Writer, text string) {
	if printers.AllowsColorOutput(out) {
		fmt.Fprint(out, "\x1b[H\x1b[2J")
	}
	fmt.Fprintln(out, text)
}
