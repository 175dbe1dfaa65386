// Package inspect has "kubectl kruise describe": kubectl's describe, with a view of the Rollouts of Kruise Rollouts
// that shows steps, traffic and Pods.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/cmd/describe"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// NewCommand returns kubectl's command with the subcommand for Rollouts.
func NewCommand(name string, f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	cmd := describe.NewCmdDescribe(name, f, streams)
	cmd.AddCommand(newRollout(f, streams, clk))
	return cmd
}

func newRollout(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	var all, noColour bool
	cmd := &cobra.Command{
		Use:               "rollout NAME",
		Aliases:           []string{"rollouts", "ro"},
		Short:             "Show the steps, the traffic and the Pods of a Rollout",
		Example:           "  kubectl kruise describe rollout web",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(f, "rollouts.rollouts.kruise.io"),
	}
	cmd.Flags().BoolVar(&all, "all", false, "Show all Pods of the new revision, not only those of the present step.")
	cmd.Flags().BoolVar(&noColour, "no-color", false, "Neither icons nor colours.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		v := View{All: all, Now: clk.Now(), Icons: !noColour, Colours: !noColour && printers.AllowsColorOutput(streams.Out)}
		if v.Rollout, err = read(f, namespace, "rollouts.rollouts.kruise.io/"+args[0]); err != nil {
			return err
		}
		if err := v.around(cmd.Context(), f, namespace); err != nil {
			return err
		}
		_, err = fmt.Fprint(streams.Out, v.Text())
		return err
	}
	return cmd
}

func read(f cmdutil.Factory, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := f.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().ResourceTypeOrNameArgs(false, name).Flatten().Do().Object()
	if err != nil {
		return nil, err
	}
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is not read without types", object)
	}
	return u, nil
}

// around completes a View: around reads the workload of the Rollout, and the Pods that the workload selects.
func (v *View) around(ctx context.Context, f cmdutil.Factory, namespace string) (err error) {
	ref, found := fields.At(v.Rollout.Object, "spec.workloadRef", "spec.objectRef.workloadRef")
	content, isRef := ref.(fields.Object)
	if !found || !isRef {
		return errors.New("spec.workloadRef: the Rollout refers to no workload")
	}
	gvk := (&unstructured.Unstructured{Object: content}).GroupVersionKind()
	name := fmt.Sprintf("%s.%s.%s/%s", gvk.Kind, gvk.Version, gvk.Group, fields.String(content, "name"))
	if v.Workload, err = read(f, namespace, name); err != nil {
		return fmt.Errorf("spec.workloadRef: %w", err)
	}
	clients, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	selector, err := fields.Selector(v.Workload.Object, "spec.selector")
	if err != nil {
		return err
	}
	pods, err := clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err == nil {
		v.Pods = pods.Items
	}
	return err
}

// View is a Rollout with its workload and Pods, and with options for the output.
type View struct {
	Rollout, Workload *unstructured.Unstructured
	Pods              []corev1.Pod
	// All shows all Pods of the new revision.
	All bool
	// Icons adds an icon to each phase. Colours marks the present step with a colour.
	Icons, Colours bool
	Now            time.Time
}
