package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: whatever happens, a Fleet never has more Pods than it wants, never takes a ready one away too many, and ends up
// as its spec says. This is all that testing an operator of one's own under faults takes.
func TestFaults(t *testing.T) {
	chaos.Run(t, chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&Fleet{}}, Quiet: quiet,
		New: func(w *chaos.World) chaos.Subject {
			s := &sailing{World: w}
			return chaos.Subject{
				Setup: func(ctx context.Context, mgr manager.Manager) error { return Setup(ctx, mgr) },
				Begin: s.create, Users: s.edit, Denies: s.denies, Settle: func() { s.policy = 0 },
				Looks: s.look, Wrote: s.judge, Converged: s.converged,
			}
		},
	})
}

// quiet is longer than an update rests that was refused.
const quiet = 6 * time.Minute

// sailing is one schedule.
type sailing struct {
	*chaos.World

	// policy is what is refused: nothing, patches of a Pod's spec, whatever is done to one Pod, new Pods.
	policy int
	denied string
}

// denies is an admission policy that users switch on and off. It answers 403 or 422.
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
	}
	if !refused {
		return nil
	}
	if len(call.Name)%2 == 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, call.Name, field.ErrorList{field.Forbidden(nil, "a policy says no")})
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

func (s *sailing) create() {
	fleet := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ships"}}
	fleet.Spec.Replicas = s.Rand().IntN(5)
	fleet.Spec.Template.Labels = map[string]string{"fleet": "ships"}
	fleet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if err := s.User.Create(context.Background(), fleet); err != nil {
		s.Failf("story", "%v", err)
	}
}

func (s *sailing) fleet() *Fleet {
	fleet := &Fleet{}
	if err := s.User.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "ships"}, fleet); err != nil {
		s.Failf("story", "%v", err)
	}
	return fleet
}

// edit is what a user does now and then.
func (s *sailing) edit() {
	fleet := s.fleet()
	app := fleet.Spec.Template.Spec.Containers[0]
	if s.Rand().IntN(5) == 0 {
		s.policy, s.denied = s.Rand().IntN(4), ""
		if pods := faultapi.All[*corev1.Pod](s.Server); len(pods) > 0 {
			s.denied = pods[s.Rand().IntN(len(pods))].Name
		}
		s.Logf("admission: policy %d, Pod %s", s.policy, s.denied)
		return
	}
	switch n := s.Rand().IntN(10); {
	case n < 5:
		app.Image = fmt.Sprintf("app:v%d", s.Rand().IntN(4))
	case n < 6:
		app.Command = []string{fmt.Sprintf("serve-%d", s.Rand().IntN(2))}
	default:
		fleet.Spec.Replicas = s.Rand().IntN(5)
	}
	fleet.Spec.Template.Spec.Containers = []corev1.Container{app}
	s.Logf("user: %d replicas, image %s, command %v", fleet.Spec.Replicas, app.Image, app.Command)
	if err := s.User.Update(context.Background(), fleet); err != nil {
		s.Failf("story", "%v", err)
	}
}

// sight is what a reconcile decides on: the Fleet as it was when it began, the Pods as they were before it first wrote one.
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
	inPlace, err := updater()
	if err != nil {
		s.Failf("story", "%v", err)
		return
	}
	v.ready, v.taken = map[types.UID]bool{}, map[types.UID]bool{}
	var pods corev1.PodList
	if err := t.Process.Cache.List(context.Background(), &pods); err != nil {
		s.Failf("story", "%v", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		// A Pod in the middle of an update is about to restart, whatever it shows.
		next, err := inPlace.Next(pod, time.Now())
		if podstate.IsActive(pod) && podstate.IsReady(pod) && err == nil && next.Complete {
			v.ready[pod.UID] = true
		}
	}
}

// judge: on what it saw, a reconcile never takes so many ready Pods away that more than one is missing, and never creates
// more Pods than are wanted.
func (s *sailing) judge(w *chaos.Write) {
	v, _ := w.Task.View.(*sight)
	old, _ := w.Before.(*corev1.Pod)
	pod, _ := w.After.(*corev1.Pod)
	switch {
	case w.Call.Resource.Resource != "pods" || v == nil || v.fleet == nil:
	case w.Call.Verb == "create":
		active := 0
		for _, other := range faultapi.All[*corev1.Pod](s.Server) {
			if podstate.IsActive(other) {
				active++
			}
		}
		if active > v.fleet.Spec.Replicas {
			s.Failf("creation", "Pod %s is one of %d, where %d are wanted", pod.Name, active, v.fleet.Spec.Replicas)
		}
	case v.ready[old.UID] && (w.Call.Verb == "delete" || !podstate.IsTrue(pod, gate)):
		v.taken[old.UID] = true
		if left := len(v.ready) - len(v.taken); left < v.fleet.Spec.Replicas-1 {
			s.Failf("budget", "%s of Pod %s leaves %d ready Pods of %d", w.Call.Verb, old.Name, left, v.fleet.Spec.Replicas)
		}
	}
}

// converged: the Pods are as many as are wanted, ready, and what the template says.
func (s *sailing) converged() {
	fleet := s.fleet()
	want := fleet.Spec.Template.Spec.Containers[0]
	pods := slices.DeleteFunc(faultapi.All[*corev1.Pod](s.Server), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) })
	if len(pods) != fleet.Spec.Replicas {
		s.Failf("converged", "%d Pods, want %d", len(pods), fleet.Spec.Replicas)
	}
	for _, pod := range pods {
		app := pod.Spec.Containers[0]
		if !podstate.IsReady(pod) || app.Image != want.Image || fmt.Sprint(app.Command) != fmt.Sprint(want.Command) {
			s.Failf("converged", "Pod %s is ready %t with image %s and command %v, want %s and %v",
				pod.Name, podstate.IsReady(pod), app.Image, app.Command, want.Image, want.Command)
		}
	}
	if n := len(faultapi.All[*appsv1.ControllerRevision](s.Server)); n == 0 {
		s.Failf("converged", "there is no revision")
	}
}
