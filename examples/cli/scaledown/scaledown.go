// Package scaledown has the command that removes chosen Pods of a CloneSet and lowers the number of replicas, in one
// write.
package scaledown

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
)

// podsToDelete is the path of the names of the chosen Pods.
const podsToDelete = "spec.scaleStrategy.podsToDelete"

// NewCommand returns the command.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:               "scaledown cloneset/NAME --pods=POD,POD",
		Short:             "Delete chosen Pods of a CloneSet and lower its replicas",
		Example:           "  kubectl kruise scaledown cloneset/web --pods=web-x7k2p,web-9q4mz",
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameNoRepeatCompletionFunc(f, []string{"clonesets"}),
	}
	o := operate.New(f, streams, cmd)
	cmd.Flags().StringSliceVar(&names, "pods", nil, "The names of the Pods to delete.")
	if err := cmd.RegisterFlagCompletionFunc("pods", completion.ResourceNameCompletionFunc(f, "pod")); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted, err := clean(names)
		if err != nil {
			return err
		}
		clients, err := f.KubernetesClientSet()
		if err != nil {
			return err
		}
		return o.Run(cmd, args, func(u *unstructured.Unstructured) (string, error) {
			pods, err := clients.CoreV1().Pods(u.GetNamespace()).List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			if err := Choose(u, pods.Items, wanted); err != nil {
				return "", err
			}
			_, err = fmt.Fprintf(o.ErrOut, "# Pods to delete: %s\n", strings.Join(wanted, ", "))
			return "selective pod deletion", err
		})
	}
	return cmd
}

// clean trims the names and refuses a list without names and a name listed twice.
func clean(names []string) (list []string, err error) {
	for _, name := range names {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			continue
		case slices.Contains(list, name):
			return nil, fmt.Errorf("--pods: %s is listed twice", name)
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return nil, errors.New("--pods is required")
	}
	return list, nil
}

// Choose marks Pods of a CloneSet for deletion and lowers the replicas by the number of marked Pods. Choose returns
// an error if the CloneSet does not control a Pod, if a Pod is already marked, or if there are more names than
// replicas.
func Choose(u *unstructured.Unstructured, pods []corev1.Pod, names []string) error {
	if u.GroupVersionKind().Group != facts.AppsGroup || u.GetKind() != "CloneSet" {
		return fmt.Errorf("scaledown is not supported for %s of %s", u.GetKind(), u.GetAPIVersion())
	}
	marked := fields.Strings(u.Object, podsToDelete)
	for _, name := range names {
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name })
		switch {
		case i < 0:
			return fmt.Errorf("--pods: there is no Pod %s", name)
		case !metav1.IsControlledBy(&pods[i], u):
			return fmt.Errorf("--pods: Pod %s does not belong to CloneSet %s", name, u.GetName())
		case slices.Contains(marked, name):
			return fmt.Errorf("--pods: Pod %s is already in %s", name, podsToDelete)
		}
	}
	replicas := fields.IntOr(u.Object, 1, "spec.replicas") - int64(len(names))
	if replicas < 0 {
		return fmt.Errorf("--pods: %d Pods are more than the replicas of CloneSet %s", len(names), u.GetName())
	}
	all := []any{}
	for _, name := range slices.Concat(marked, names) {
		all = append(all, name)
	}
	return errors.Join(fields.Set(u.Object, all, podsToDelete), fields.Set(u.Object, replicas, "spec.replicas"))
}
