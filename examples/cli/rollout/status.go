package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/utils/clock"

	kruiseapps "github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/examples/cli/progress"
)

// status is the state of a run of the command "rollout status".
type status struct {
	genericiooptions.IOStreams
	resource.FilenameOptions

	factory  cmdutil.Factory
	clock    clock.PassiveClock
	watch    bool
	detail   bool
	revision int64
	timeout  time.Duration
	patience time.Duration
	printed  string
}

func newStatus(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	s := &status{IOStreams: streams, factory: f, clock: clk}
	cmd := &cobra.Command{
		Use:   "status (TYPE NAME | TYPE/NAME)",
		Short: "Watch a rollout until the rollout has ended or needs help",
		Long: "Watch a rollout, with a line for every change.\n\nExit codes: 0 done; 1 error; 2 stuck, with the reason; " +
			"3 still running at the timeout or without --watch; 4 paused.",
		Example: "  kubectl kruise rollout status cloneset/web\n  kubectl kruise rollout status statefulsets.apps.kruise.io/db --timeout 5m",
		RunE:    func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	cmdutil.AddFilenameOptionFlags(cmd, &s.FilenameOptions, "identifying the resource to get from a server.")
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", true, "Watch the status of the rollout until it's done.")
	cmd.Flags().BoolVarP(&s.detail, "detail", "d", false, "List the updated Pods, ready and not ready.")
	cmd.Flags().Int64Var(&s.revision, "revision", 0, "Pin to a specific revision of a Deployment. Defaults to 0 (last revision).")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 0, "The length of time to wait before ending watch, zero means never.")
	cmd.Flags().DurationVar(&s.patience, "patience", progress.Patience, "For how long a failure that the controller tries again may last before the rollout counts as stuck.")
	return cmd
}

func (s *status) run(ctx context.Context, args []string) error {
	if s.revision < 0 {
		return fmt.Errorf("revision must be a positive integer: %d", s.revision)
	}
	o := operate.Options{FilenameOptions: s.FilenameOptions, IOStreams: s.IOStreams, Factory: s.factory}
	infos, err := o.Infos(args)
	if err != nil {
		return err
	}
	if len(infos) != 1 {
		return fmt.Errorf("rollout status is only supported on individual resources: %d resources were found", len(infos))
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
	last := progress.Progress{State: progress.Running}
	err = follow(watched, client.Resource(infos[0].Mapping.Resource).Namespace(infos[0].Namespace), infos[0].Name, s.recheck(),
		func(u *unstructured.Unstructured) (bool, error) {
			var err error
			if last, err = s.judge(u); err != nil {
				return false, err
			}
			if err := s.say(ctx, u, last); err != nil {
				return false, err
			}
			return !s.watch || last.State != progress.Running, nil
		})
	return s.end(ctx, err, last)
}

// recheck returns the interval at which an unchanged object is evaluated again, because no event occurs when a
// failure has lasted for longer than the patience.
func (s *status) recheck() time.Duration { return max(s.patience/4, time.Second) }

// end turns the last Progress into the error of the command.
func (s *status) end(ctx context.Context, err error, last progress.Progress) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return &operate.Exit{Code: last.State.ExitCode(), Err: fmt.Errorf("timed out after %s: %s", s.timeout, last.Text)}
	case err != nil:
		return err
	case last.State == progress.Done:
		return nil
	case last.State == progress.Stuck:
		return &operate.Exit{Code: last.State.ExitCode(), Err: last.Why.Err()}
	default:
		return &operate.Exit{Code: last.State.ExitCode()}
	}
}

// judge returns the Progress of an object. For kinds of Kubernetes, judge uses kubectl's code.
func (s *status) judge(u *unstructured.Unstructured) (progress.Progress, error) {
	gk := u.GroupVersionKind().GroupKind()
	if gk.Group != "apps" {
		return progress.Of(u, s.patience, s.clock.Now())
	}
	viewer, err := polymorphichelpers.StatusViewerFor(gk)
	if err != nil {
		return progress.Progress{}, err
	}
	text, isDone, err := viewer.Status(u, s.revision)
	return progress.Native(u, text, isDone, err)
}

// say prints a Progress whose text differs from the last printed text.
func (s *status) say(ctx context.Context, u *unstructured.Unstructured, p progress.Progress) error {
	if p.Text == s.printed {
		return nil
	}
	s.printed = p.Text
	if _, err := fmt.Fprintln(s.Out, p.Text); err != nil || !s.detail || u.GetKind() != "CloneSet" {
		return err
	}
	clients, err := s.factory.KubernetesClientSet()
	if err != nil {
		return err
	}
	pods, err := clients.CoreV1().Pods(u.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return printPods(s.Out, u, pods.Items)
}

// printPods lists the updated Pods of a CloneSet. The revision in a Pod's label can have the owner's name as a prefix
// or not.
func printPods(out io.Writer, u *unstructured.Unstructured, pods []corev1.Pod) error {
	revision, _, err := unstructured.NestedString(u.Object, "status", "updateRevision")
	if err != nil {
		return err
	}
	var ready, others []string
	for i := range pods {
		label := pods[i].Labels[kruiseapps.LabelRevision]
		controller := metav1.GetControllerOfNoCopy(&pods[i])
		if controller == nil || controller.UID != u.GetUID() || label == "" || label != revision && u.GetName()+"-"+label != revision {
			continue
		}
		if isReady(&pods[i]) {
			ready = append(ready, pods[i].Name)
		} else {
			others = append(others, pods[i].Name)
		}
	}
	_, err = fmt.Fprintf(out, "%s %s\n  updated, ready: %v\n  updated, not ready: %v\n", u.GetKind(), u.GetName(), ready, others)
	return err
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// errDeleted means that the watched object was deleted. A later object with the same name is another rollout.
var errDeleted = errors.New("object has been deleted")

// follow calls see with an object: at once, after each change, and when nothing has changed for the time again.
// follow returns when see returns true or an error.
func follow(ctx context.Context, client dynamic.ResourceInterface, name string, again time.Duration, see func(*unstructured.Unstructured) (bool, error)) error {
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	uid := object.GetUID()
	for {
		if ended, err := see(object); err != nil || ended {
			return err
		}
		changed, err := next(ctx, client, object, again)
		switch {
		case err != nil:
			return err
		case changed.GetUID() != uid:
			return errDeleted
		}
		object = changed
	}
}

// next returns an object's next state: from a watch, or from a read after the time again.
func next(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, again time.Duration) (*unstructured.Unstructured, error) {
	watcher, err := client.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", object.GetName()).String(),
		ResourceVersion: object.GetResourceVersion(),
	})
	if err == nil {
		defer watcher.Stop()
		timer := time.NewTimer(again)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		case event, open := <-watcher.ResultChan():
			if changed, ok := event.Object.(*unstructured.Unstructured); open && ok && event.Type != watch.Error {
				if event.Type == watch.Deleted {
					return nil, errDeleted
				}
				return changed, nil
			}
		}
	} else if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	changed, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, errDeleted
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return changed, err
}
