package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, a Fleet never has more Pods than wanted, and never loses more ready Pods than
// maxUnavailable allows. In the end the Pods match the spec. A test of your own operator under faults needs no more
// code than this file.
func TestFaults(t *testing.T) {
	chaos.Run(t, chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&Fleet{}}, Quiet: quiet,
		New: func(w *chaos.World) chaos.Subject {
			s := &sailing{World: w}
			return chaos.Subject{
				Setup: func(ctx context.Context, mgr manager.Manager) (err error) {
					s.operator, err = setup(ctx, mgr)
					return err
				},
				Begin: s.create, Users: s.edit, Denies: s.denies, Settle: s.settle,
				Looks: s.look, Wrote: s.judge, Converged: s.converged,
			}
		},
	})
}

// down is the value of sailing.policy for a failing webhook.
const down = 4

// quiet is the time without a write after which a schedule's final state counts as reached. The time is longer than
// the back-off after a refused update.
const quiet = 6 * time.Minute

// sailing is the state of a fault schedule, that is a test run with random faults.
type sailing struct {
	*chaos.World
	operator *reconciler // the reconciler of the last process

	// policy says which requests the API server refuses: none, patches of a Pod's spec, every write to a single Pod, new
	// Pods, or patches because of a failing webhook.
	policy int
	denied string
	asked  int // calls of the webhook since the last reset
}

// denies refuses requests while a policy is in force, with status 403 or 422, or 500 for a failing webhook.
func (s *sailing) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource != "pods" {
		return nil
	}
	refused := false
	switch s.policy {
	case 1:
		refused = call.Verb == "patch" && call.Subresource == ""
	case 2:
		refused = call.Name == s.denied && (call.Verb == "delete" || call.Verb == "patch" && call.Subresource == "")
	case 3:
		refused = call.Verb == "create"
	case down:
		refused = call.Verb == "patch" && call.Subresource == ""
	}
	switch {
	case !refused:
		return nil
	case s.policy == down:
		s.asked++
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	if len(call.Name)%2 == 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, call.Name, field.ErrorList{field.Forbidden(nil, "a policy says no")})
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

func (s *sailing) create() {
	fleet := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ships"}}
	s.draw(&fleet.Spec)
	fleet.Spec.Template.Labels = map[string]string{"fleet": "ships"}
	fleet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	s.must(s.User.Create(context.Background(), fleet))
}

func (s *sailing) draw(spec *Spec) {
	spec.Replicas, spec.MaxUnavailable, spec.GracePeriodSeconds = s.Rand().IntN(5), 1+s.Rand().IntN(2), 3*s.Rand().IntN(2)
}

func (s *sailing) fleet() *Fleet {
	fleet := &Fleet{}
	s.must(s.User.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "ships"}, fleet))
	return fleet
}

// edit makes a random change as a user.
func (s *sailing) edit() {
	fleet := s.fleet()
	switch n := s.Rand().IntN(40); {
	case n < 8:
		s.policy, s.denied = s.Rand().IntN(down+1), ""
		if pod := s.AnyPod(); pod != nil {
			s.denied = pod.Name
		}
		s.Logf("admission: policy %d, Pod %s", s.policy, s.denied)
	case n < 10:
		s.spoil(s.AnyPod())
	case n < 11:
		s.Logf("user: another Fleet of that name")
		s.must(s.User.Delete(context.Background(), fleet))
		s.create()
	case n < 12: // many releases, more than the history limit
		for i := range historyLimit + 3 {
			s.release(fmt.Sprintf("app:v%d", i), nil)
			s.CatchUp()
			s.Sleep(time.Minute)
		}
	case n < 26:
		s.release(fmt.Sprintf("app:v%d", s.Rand().IntN(4)), nil)
	case n < 29:
		s.release("", []string{fmt.Sprintf("serve-%d", s.Rand().IntN(2))})
	default:
		s.draw(&fleet.Spec)
		s.Logf("user: %d replicas, at most %d unavailable, %d s of grace", fleet.Spec.Replicas, fleet.Spec.MaxUnavailable, fleet.Spec.GracePeriodSeconds)
		s.must(s.User.Update(context.Background(), fleet))
	}
}

// release changes the image or the command of the Pods. A new image is possible in place, a new command is not.
func (s *sailing) release(image string, command []string) {
	fleet := s.fleet()
	app := &fleet.Spec.Template.Spec.Containers[0]
	if app.Image = cmp.Or(image, app.Image); command != nil {
		app.Command = command
	}
	s.Logf("user: image %s, command %v", app.Image, app.Command)
	s.must(s.User.Update(context.Background(), fleet))
}

// spoil makes the annotation with the progress of a Pod's update invalid, so that the progress is unknown.
func (s *sailing) spoil(pod *corev1.Pod) {
	if pod == nil || !podstate.IsActive(pod) {
		return
	}
	s.Logf("user: spoils %s", pod.Name)
	pod = pod.DeepCopy()
	pod.Annotations = map[string]string{group + "/state": "garbage"}
	s.must(s.User.Update(context.Background(), pod))
}

// settle ends the policy. Before the end, time passes in which the operator must do all work that the policy does not
// prevent.
func (s *sailing) settle() {
	if s.asked = 0; s.policy != 0 {
		for range 60 {
			s.Sleep(10 * time.Second)
			s.Nodes.Settle()
			s.Server.CollectGarbage()
			s.CatchUp()
		}
		if pods := s.possible(); s.asked > 60*(len(pods)+1) {
			s.Failf("noise", "in ten minutes the webhook was asked %d times about %d Pods", s.asked, len(pods))
		}
	}
	s.policy = 0
}

func (s *sailing) must(err error) {
	if err != nil {
		s.Failf("story", "%v", err)
	}
}

// sight is the input of a reconciliation: the Fleet at the beginning, and the Pods before the first write to a Pod.
type sight struct {
	fleet        *Fleet
	ready, taken map[types.UID]bool
	wrote        bool
}

func (s *sailing) look(t *chaos.Task, call *faultapi.Call) {
	if t.Controller != "fleet" {
		return
	}
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{}
		t.View = v
	}
	if v.wrote = v.wrote || call != nil && !call.IsRead(); v.wrote {
		return
	}
	if v.fleet = (&Fleet{}); t.Process.Cache.Get(context.Background(), t.Object, v.fleet) != nil {
		v.fleet = nil
		return
	}
	inPlace := s.inPlace()
	v.ready, v.taken = map[types.UID]bool{}, map[types.UID]bool{}
	var pods corev1.PodList
	s.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		pod := &pods.Items[i]
		// During an update, a Pod counts as unavailable whatever its status shows, because its containers are about
		// to restart.
		next, err := inPlace.Next(pod, time.Now())
		// The operator does not change a Pod whose annotation is invalid.
		whole := err != nil && podstate.IsTrue(pod, gate) || err == nil && next.Complete
		if metav1.IsControlledBy(pod, v.fleet) && podstate.IsActive(pod) && podstate.IsReady(pod) && whole {
			v.ready[pod.UID] = true
		}
	}
}

// judge checks two rules with the objects that the reconciliation has seen: the operator never takes more ready Pods
// out of service than the budget allows, and never creates more Pods than wanted.
func (s *sailing) judge(w *chaos.Write) {
	v, _ := w.Task.View.(*sight)
	old, _ := w.Before.(*corev1.Pod)
	pod, _ := w.After.(*corev1.Pod)
	switch {
	case w.Call.Resource.Resource != "pods" || v == nil || v.fleet == nil:
	case w.Call.Verb == "create":
		active := 0
		for _, other := range faultapi.All[*corev1.Pod](s.Server) {
			if podstate.IsActive(other) && metav1.IsControlledBy(other, v.fleet) {
				active++
			}
		}
		if active > v.fleet.Spec.Replicas {
			s.Failf("creation", "Pod %s is one of %d, where %d are wanted", pod.Name, active, v.fleet.Spec.Replicas)
		}
	case v.ready[old.UID] && (w.Call.Verb == "delete" || !podstate.IsTrue(pod, gate)):
		v.taken[old.UID] = true
		if left := len(v.ready) - len(v.taken); left < v.fleet.Spec.Replicas-v.fleet.Spec.MaxUnavailable {
			s.Failf("budget", "%s of Pod %s leaves %d ready Pods of %d", w.Call.Verb, old.Name, left, v.fleet.Spec.Replicas)
		}
	}
}

// converged checks that the wanted number of Pods exists, all Pods are ready and equal to the template, the status is
// right, and the process remembers nothing about deleted objects.
func (s *sailing) converged() {
	pods := s.possible()
	fleet, revisions := s.fleet(), faultapi.All[*appsv1.ControllerRevision](s.Server)
	newest := slices.MaxFunc(revisions, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	want, used := Status{ObservedGeneration: fleet.Generation, Revision: newest.Name, Pods: int32(len(pods))}, map[string]bool{newest.Labels[revisionLabel]: true}
	for _, pod := range pods {
		used[pod.Labels[revisionLabel]] = true
		if pod.Labels[revisionLabel] == newest.Labels[revisionLabel] {
			want.Updated++
		}
		if podstate.IsReady(pod) {
			want.Available++
		}
	}
	got := fleet.Status
	if got.Conditions = nil; !reflect.DeepEqual(got, want) {
		s.Failf("status", "%+v, want %+v", got, want)
	}
	o := s.operator
	if awaited, refused, read := o.Cache.Clients().Tracker().Len(), o.Fanout.Backoff.Len(), o.Reader.Len(); max(awaited, refused) > 1+len(faultapi.All[*corev1.Pod](s.Server)) || read > 1 {
		s.Failf("memory", "%d are awaited, %d refusals are remembered, %d owners, where there are one and %d Pods", awaited, refused, read, len(pods))
	}
	if len(revisions) > len(used)+historyLimit {
		s.Failf("history", "%d revisions, of which %d are used", len(revisions), len(used))
	}
}

// possible checks that the operator has done all work that the policy does not prevent: the wanted number of Pods
// exists and, as far as maxUnavailable allows, the Pods are ready and equal to the template. Pods with an invalid
// annotation, and Pods that the policy keeps from being updated, are exempt, and the status must report these Pods.
func (s *sailing) possible() []*corev1.Pod {
	fleet, inPlace := s.fleet(), s.inPlace()
	want := fleet.Spec.Template.Spec.Containers[0]
	pods := slices.DeleteFunc(faultapi.All[*corev1.Pod](s.Server), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) })
	more := len(pods) - fleet.Spec.Replicas
	if more < 0 && s.policy != 3 {
		s.Failf("converged", "%d Pods, want %d", len(pods), fleet.Spec.Replicas)
	}
	unavailable, trouble := max(-more, 0), more != 0
	var bad []string
	for _, pod := range pods {
		next, err := inPlace.Next(pod, time.Now())
		ready, app := podstate.IsReady(pod), pod.Spec.Containers[0]
		exempt := err != nil || s.policy == down || s.policy != 0 && (pod.Name == s.denied || !next.Complete)
		switch right := app.Image == want.Image && slices.Equal(app.Command, want.Command); {
		case ready && right:
		case exempt:
			trouble = true
			if !ready {
				unavailable++
			}
		default:
			bad = append(bad, fmt.Sprintf("Pod %s is ready %t with image %s and command %v", pod.Name, ready, app.Image, app.Command))
		}
	}
	if unavailable >= fleet.Spec.MaxUnavailable {
		return pods
	}
	if more > 1 || more > 0 && s.policy != 2 {
		s.Failf("converged", "%d Pods, want %d", len(pods), fleet.Spec.Replicas)
	}
	if bad != nil {
		s.Failf("converged", "%s, want %s and %v", bad, want.Image, want.Command)
	}
	if trouble != meta.IsStatusConditionTrue(fleet.Status.Conditions, "Failed") && (trouble || s.policy == 0) {
		s.Failf("condition", "%+v, trouble %t", fleet.Status.Conditions, trouble)
	}
	return pods
}

func (s *sailing) inPlace() *inplaceupdate.Updater {
	inPlace, err := updater()
	s.must(err)
	return inPlace
}
