package foresee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/rehearsal"
)

// Question is a change, and the cluster in which the change would be made.
type Question struct {
	// Objects are the cluster's objects in the stored version, with Go types of the scheme.
	Objects []client.Object
	// Changed is the object that a user would send. Stored is the object stored in the API server, in the same
	// version; nil for a new object.
	Changed, Stored *unstructured.Unstructured
	// Now is the time at which Objects were read.
	Now time.Time
	// Gates are the feature gates of the cluster's manager that differ from the defaults.
	Gates map[apps.Gate]bool
	// ManagerNamespace is the namespace of the cluster's manager.
	ManagerNamespace string
	// NoWebhooks means that the cluster has no webhooks of apps.kruise.io, so that no defaults are set, no objects
	// are refused, and new Pods are not changed.
	NoWebhooks bool
	// Times are the measured times of Pods.
	Times forecast.Times
}

// ErrUnknownKind means that Play does not support the kind of the changed object.
var ErrUnknownKind = errors.New("not a kind whose changes are previewed: CloneSet, StatefulSet, DaemonSet, SidecarSet of apps.kruise.io")

// Refused is the error of a webhook that refuses the change.
type Refused struct{ Status metav1.Status }

// Error returns the webhook's message in the form that the API server shows.
func (r *Refused) Error() string { return r.Status.Message }

// Play makes the change on a copy of the cluster, and returns the input for package forecast. The error is a
// *[Refused], [ErrUnknownKind], the error of ctx, or any other error because of which Play could not make the change.
// If the controllers do not stop writing, Play returns no error, and Input.Endless is true.
func Play(ctx context.Context, ask Question) (*forecast.Input, error) {
	w, err := newWorld(ask)
	if err != nil {
		return nil, err
	}
	gvk := ask.Changed.GroupVersionKind()
	row := rowOf(w.rows, gvk.GroupKind())
	if row == nil {
		return nil, fmt.Errorf("%s: %w", gvk, ErrUnknownKind)
	}
	hub, warnings, err := w.admit(ctx, row, ask)
	if err != nil {
		return nil, err
	}
	in := &forecast.Input{Kind: row.Kind, Name: hub.GetName(), Warnings: warnings, Began: ask.Now, Times: ask.Times}
	if err := w.observe(&in.Before, row, client.ObjectKeyFromObject(hub)); err != nil {
		return nil, err
	}
	if err := w.apply(ctx, hub); err != nil {
		return nil, err
	}
	r, err := rehearsal.New(rehearsal.Config{
		Scheme: w.scheme, Server: w.server, Clock: w.clock, Mutate: w.mutate, Outside: w.volumes, ReadyAfter: w.readyAfter, Unknown: isUnread,
	})
	if err != nil {
		return nil, err
	}
	if err := w.setUp(ctx, r.Manager()); err != nil {
		return nil, err
	}
	err = r.Run(ctx)
	if in.Endless = errors.Is(err, rehearsal.ErrEndless); err != nil && !in.Endless {
		return nil, err
	}
	in.Ended = w.clock.Now()
	if err := w.observe(&in.After, row, client.ObjectKeyFromObject(hub)); err != nil {
		return nil, err
	}
	in.Writes = writesOf(r.Writes())
	in.Failures = failuresOf(r.Errors())
	in.Blocking, err = w.blocking()
	return in, err
}

// Knows reports whether Play supports changes of a kind: the kinds that run Pods.
func Knows(of schema.GroupKind) bool { return rowOf(Rows(), of) != nil }

// rowOf returns the kind.Row of a kind that runs Pods, or nil.
func rowOf(rows []kind.Row, of schema.GroupKind) *kind.Row {
	for i := range rows {
		if rows[i].Kind.GroupKind() == of && of.Kind != "PodUnavailableBudget" {
			return &rows[i]
		}
	}
	return nil
}

// apply writes the admitted object to the API server in memory, as a user would.
func (w *world) apply(ctx context.Context, hub client.Object) error {
	user := w.server.Client(nil, nil)
	stored := w.server.Stored(hub, client.ObjectKeyFromObject(hub))
	if stored == nil {
		hub.SetResourceVersion("")
		return user.Create(ctx, hub)
	}
	hub.SetUID(stored.GetUID())
	hub.SetResourceVersion(stored.GetResourceVersion())
	return user.Update(ctx, hub)
}

// Hub decodes an object of any version in the stored version of its kind.
func Hub(row *kind.Row, raw []byte) (client.Object, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	made, err := scheme.New(row.Kind)
	if err != nil {
		return nil, err
	}
	head := metav1.TypeMeta{}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	if head.APIVersion != row.Kind.GroupVersion().String() {
		if raw, err = conversion.JSON(raw, row.Kind.GroupVersion().String()); err != nil {
			return nil, err
		}
	}
	hub, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("a %T is no object", made)
	}
	return hub, json.Unmarshal(raw, hub)
}

// patched applies the JSON patch of a webhook.
func patched(raw, patch []byte) ([]byte, error) {
	if len(patch) == 0 {
		return raw, nil
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(raw)
}

// observe copies the objects for a forecast from the API server in memory.
func (w *world) observe(s *forecast.Snapshot, row *kind.Row, key types.NamespacedName) error {
	made, err := w.scheme.New(row.Kind)
	if err != nil {
		return err
	}
	if like, ok := made.(client.Object); ok {
		if stored := w.server.Stored(like, key); stored != nil {
			raw, err := json.Marshal(stored)
			if err != nil {
				return err
			}
			s.Object = map[string]any{}
			if err := json.Unmarshal(raw, &s.Object); err != nil {
				return err
			}
			s.Object["apiVersion"], s.Object["kind"] = row.Kind.GroupVersion().String(), row.Kind.Kind
			s.UID = stored.GetUID()
		}
	}
	s.Pods = faultapi.All[*corev1.Pod](w.server)
	s.Claims = faultapi.All[*corev1.PersistentVolumeClaim](w.server)
	s.Revisions = faultapi.All[*appsv1.ControllerRevision](w.server)
	for _, budget := range faultapi.All[*policyv1beta1.PodUnavailableBudget](w.server) {
		s.Budgets = append(s.Budgets, forecast.Budget{
			Namespace: budget.Namespace, Name: budget.Name, Allowed: budget.Status.UnavailableAllowed, Desired: budget.Status.DesiredAvailable, Available: budget.Status.CurrentAvailable,
		})
	}
	return nil
}

// blocking returns the function that returns the reasons why a Pod cannot be updated in place from one revision to
// another.
func (w *world) blocking() (func(from, to *appsv1.ControllerRevision) reason.List, error) {
	updater, err := kruise.InPlace(w.gates, apps.ReservedStatefulSetLabels())
	if err != nil {
		return nil, err
	}
	planner := inplaceupdate.NewPlanner(updater, revision.NewDecoder(64, nil), nil)
	return func(from, to *appsv1.ControllerRevision) reason.List {
		why := planner.Plan(from, to).Blocking
		if w.gates[apps.GateRecreatePodWhenChangeVCT] {
			why = append(why, kruise.ClaimTemplatesBlock(from, to)...)
		}
		return why
	}, nil
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(unreadPrefix + name), Labels: map[string]string{corev1.LabelMetadataName: name, corev1.LabelHostname: name}}
}

// passive is a clock that has only Now and Since, so that no code can wait for a timer of the simulated clock.
type passive struct{ clock *rehearsal.Clock }

// Now returns the time.
func (p passive) Now() time.Time { return p.clock.Now() }

// Since returns the time since t.
func (p passive) Since(t time.Time) time.Duration { return p.clock.Since(t) }

// patience is how long a container that was started before the change can take to become ready, if no time was
// measured.
const patience = time.Minute

// guess is how long a container takes to become ready if no time was measured.
const guess = time.Second

// readyAfter returns how long a container takes to become ready after its start.
func (w *world) readyAfter(pod *corev1.Pod, c faultapi.Unready) (time.Duration, bool) {
	measured := w.ask.Times.Create
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == c.Name && s.RestartCount > 0 {
			measured = w.ask.Times.Restart
		}
	}
	if c.Adopted {
		limit := patience
		if measured != nil {
			limit = 2 * *measured
		}
		age := w.ask.Now.Sub(c.Started.Time)
		return age + guess, age < limit
	}
	if measured == nil {
		return guess, true
	}
	return max(*measured, guess), true
}

func writesOf(all []rehearsal.Write) (out []forecast.Write) {
	for i := range all {
		w := &all[i]
		write := forecast.Write{At: w.At, Controller: w.Controller, Object: w.Object.Name, Verb: w.Call.Verb, Resource: w.Call.Resource.Resource, Subresource: w.Call.Subresource}
		if w.Before != nil {
			write.Namespace, write.Name, write.UID = w.Before.GetNamespace(), w.Before.GetName(), w.Before.GetUID()
		} else if w.After != nil {
			write.Namespace, write.Name, write.UID = w.After.GetNamespace(), w.After.GetName(), w.After.GetUID()
		}
		before, _ := w.Before.(*corev1.Pod)
		after, _ := w.After.(*corev1.Pod)
		if before != nil && after != nil {
			write.Takes = forecast.TakesOut(before, after)
		}
		out = append(out, write)
	}
	return out
}

func failuresOf(failed map[string]error) map[string]string {
	out := map[string]string{}
	for task, err := range failed {
		controller, object, _ := strings.Cut(task, " ")
		out[controller+" "+strings.TrimPrefix(object, "/")] = err.Error()
	}
	return out
}
