package rollout

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
)

// edit changes an object for a command.
type edit = operate.Change

func newEdit(f cmdutil.Factory, streams genericiooptions.IOStreams, verb, short string, change func(*cobra.Command) edit) *cobra.Command {
	cmd := &cobra.Command{
		Use:     verb + " (TYPE NAME | TYPE/NAME) ...",
		Short:   short,
		Example: "  kubectl kruise rollout " + verb + " cloneset/web",
	}
	o := operate.New(f, streams, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.Run(cmd, args, change(cmd)) }
	return cmd
}

// pause returns the edit that pauses or resumes an object. If the object already has the wanted state, the edit
// fails, as in kubectl.
func pause(paused bool) edit {
	return func(u *unstructured.Unstructured) (string, error) {
		path := facts.Pausable(u.GroupVersionKind())
		switch {
		case path == "":
			return "", fmt.Errorf("%s of %s cannot be paused", u.GetKind(), u.GetAPIVersion())
		case fields.Bool(u.Object, path) && paused:
			return "", errors.New("is already paused")
		case !fields.Bool(u.Object, path) && !paused:
			return "", errors.New("is not paused")
		}
		if paused {
			return "paused", fields.Set(u.Object, true, path)
		}
		return "resumed", fields.Set(u.Object, false, path)
	}
}

// These are the names of the annotation and the variable by which a Pod template changes for a restart.
const (
	// restartedAt is the annotation that "kubectl rollout restart" sets.
	restartedAt = "kubectl.kubernetes.io/restartedAt"
	// restartedEnv is the environment variable that OpenKruise's command line sets. An annotation alone is not
	// enough, because workloads of OpenKruise would update the annotation in place, without a restart.
	restartedEnv = "RESTARTED_AT"
)

// restart returns the edit that writes the time into the Pod templates, so that the controller replaces all Pods.
func restart(now time.Time) edit {
	return func(u *unstructured.Unstructured) (string, error) {
		switch {
		case !facts.Restartable(u.GroupVersionKind().GroupKind()):
			return "", fmt.Errorf("%s of %s cannot be restarted", u.GetKind(), u.GetAPIVersion())
		case u.GetKind() == "Deployment" && fields.Bool(u.Object, "spec.paused"):
			return "", errors.New("can't restart paused deployment (run rollout resume first)")
		}
		stamp := now.Format(time.RFC3339)
		for _, path := range facts.Templates(u.Object) {
			value, _ := fields.At(u.Object, path)
			template, _ := value.(fields.Object)
			if err := mark(template, u.GroupVersionKind().Group == "apps", stamp); err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
		}
		return "restarted", nil
	}
}

func mark(template fields.Object, byAnnotation bool, stamp string) error {
	if byAnnotation {
		return unstructured.SetNestedField(template, stamp, "metadata", "annotations", restartedAt)
	}
	for _, container := range fields.List(template, "spec.containers") {
		env, _, err := unstructured.NestedSlice(container, "env")
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(container, withEnv(env, restartedEnv, stamp), "env"); err != nil {
			return err
		}
	}
	return nil
}

// withEnv replaces a variable in a list, or appends the variable.
func withEnv(env []any, name, value string) []any {
	entry := fields.Object{"name": name, "value": value}
	for i := range env {
		if old, ok := env[i].(fields.Object); ok && old["name"] == name {
			env[i] = entry
			return env
		}
	}
	return append(env, entry)
}

func newApprove(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "approve (TYPE NAME | TYPE/NAME) ...",
		Short:   "Let a Rollout go on after the step at which the Rollout waits",
		Example: "  kubectl kruise rollout approve rollout/web",
	}
	o := operate.New(f, streams, cmd)
	o.Subresource = "status"
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.Run(cmd, args, approve) }
	return cmd
}

// stepStatuses returns the paths of the parts of a Rollout's status that contain the present step.
func stepStatuses() []string { return []string{"status.canaryStatus", "status.blueGreenStatus"} }

// approve marks the present step of a Rollout as ready.
func approve(u *unstructured.Unstructured) (string, error) {
	if u.GroupVersionKind().Group != facts.RolloutsGroup || u.GetKind() != "Rollout" {
		return "", fmt.Errorf("%s of %s is no Rollout", u.GetKind(), u.GetAPIVersion())
	}
	for _, path := range stepStatuses() {
		state := fields.String(u.Object, path+".currentStepState")
		switch state {
		case "StepPaused":
			return "approved", fields.Set(u.Object, "StepReady", path+".currentStepState")
		case "":
		default:
			return "", fmt.Errorf("the present step does not wait for approval: its state is %s", state)
		}
	}
	return "", errors.New("the Rollout has no step that waits for approval")
}
