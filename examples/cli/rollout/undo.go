package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/examples/cli/seams"
)

// undo is the state of a run of the command "rollout undo".
type undo struct {
	*operate.Options

	revision int64
	fast     bool
	dryRun   cmdutil.DryRunStrategy
	seen     map[types.UID]bool
}

func newUndo(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo (TYPE NAME | TYPE/NAME) ...",
		Short: "Put a workload back to an earlier revision",
		Example: "  kubectl kruise rollout undo cloneset/web\n" +
			"  kubectl kruise rollout undo statefulsets.apps.kruise.io/db --to-revision 3 --dry-run=server",
	}
	u := &undo{Options: operate.New(f, streams, cmd)}
	cmd.Flags().Int64Var(&u.revision, "to-revision", 0, "The revision to go back to; 0 is the previous one.")
	cmd.Flags().BoolVar(&u.fast, "fast", false, "For a Rollout: go back to the earlier step with most replicas and without traffic.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return u.run(cmd, args) }
	return cmd
}

func (u *undo) run(cmd *cobra.Command, args []string) (err error) {
	if u.revision < 0 {
		return fmt.Errorf("revision must be a positive integer: %d", u.revision)
	}
	if u.dryRun, err = u.DryRun(cmd); err != nil {
		return err
	}
	infos, err := u.Infos(args)
	failures := []error{err}
	u.seen = map[types.UID]bool{}
	for _, info := range infos {
		if err := u.one(cmd.Context(), info); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", info.ObjectName(), err))
		}
	}
	return errors.Join(failures...)
}

// one undoes the rollout of an object, or of the workload of a Rollout. A workload that is named twice is undone
// once.
func (u *undo) one(ctx context.Context, info *resource.Info) error {
	object, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%T is not read without types", info.Object)
	}
	if object.GroupVersionKind().GroupKind().String() == "Rollout."+facts.RolloutsGroup {
		if u.fast {
			u.Subresource = "status"
			return u.One(info, fastBack)
		}
		return u.workloadOf(ctx, object)
	}
	if u.seen[object.GetUID()] {
		return nil
	}
	u.seen[object.GetUID()] = true
	if object.GroupVersionKind().Group == facts.AppsGroup {
		return u.kruise(ctx, info, object)
	}
	if object.GroupVersionKind().Group == "apps" && object.GetKind() == "Deployment" {
		return u.deployment(ctx, info, object)
	}
	rollbacker, err := polymorphichelpers.RollbackerFn(u.Factory, info.Mapping)
	if err != nil {
		return err
	}
	operation, err := rollbacker.Rollback(object, nil, u.revision, u.dryRun)
	if err != nil {
		return err
	}
	return u.Print(object, operation)
}

// workloadOf undoes the workload that a Rollout refers to.
func (u *undo) workloadOf(ctx context.Context, r *unstructured.Unstructured) error {
	value, found := fields.At(r.Object, "spec.workloadRef", "spec.objectRef.workloadRef")
	ref, isRef := value.(fields.Object)
	if !found || !isRef {
		return errors.New("spec.workloadRef: the Rollout refers to no workload")
	}
	stub := &unstructured.Unstructured{Object: fields.Object{"apiVersion": ref["apiVersion"], "kind": ref["kind"]}}
	gvk := stub.GroupVersionKind()
	infos, err := u.Factory.NewBuilder().Unstructured().NamespaceParam(r.GetNamespace()).DefaultNamespace().
		ResourceTypeOrNameArgs(false, fmt.Sprintf("%s.%s.%s/%s", gvk.Kind, gvk.Version, gvk.Group, fields.String(ref, "name"))).
		Flatten().Do().Infos()
	if err != nil {
		return fmt.Errorf("spec.workloadRef: %w", err)
	}
	for _, info := range infos {
		if err := u.one(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

// kruise undoes the rollout of a workload of OpenKruise.
func (u *undo) kruise(ctx context.Context, info *resource.Info, object *unstructured.Unstructured) error {
	clients, err := u.Factory.KubernetesClientSet()
	if err != nil {
		return err
	}
	revisions, err := seams.Revisions(ctx, clients, info.Namespace, object.GetUID())
	if err != nil {
		return err
	}
	target, err := choose(revisions, u.revision)
	if err != nil {
		return err
	}
	if u.dryRun == cmdutil.DryRunClient {
		text, err := seams.TemplateAt(object, target)
		if err == nil {
			_, err = fmt.Fprint(u.Out, text)
		}
		return err
	}
	return u.One(info, back(target))
}

// choose returns the revision with a number; 0 means the second newest revision.
func choose(revisions []appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	if number == 0 {
		if len(revisions) < 2 {
			return nil, errors.New("no last revision to roll back to")
		}
		return &revisions[len(revisions)-2], nil
	}
	for i := range revisions {
		if revisions[i].Revision == number {
			return &revisions[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %d", seams.ErrNoRevision, number)
}

// back returns the edit that restores a revision.
func back(target *appsv1.ControllerRevision) edit {
	return func(object *unstructured.Unstructured) (string, error) {
		before := object.DeepCopy()
		if err := seams.Restore(object, target); err != nil {
			return "", err
		}
		patch, err := operate.Patch(before.Object, object.Object)
		if err == nil && patch == nil {
			return fmt.Sprintf("skipped rollback (current template already matches revision %d)", target.Revision), nil
		}
		return "rolled back", err
	}
}
