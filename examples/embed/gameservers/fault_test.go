package gameservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no ordinal ever has two Pods, and no unwanted ordinal gets a Pod. The number of
// ordinals without an available Pod stays within maxUnavailable. Pods are updated from the highest ordinal down, and
// no Pod is updated during a match. Pods of other owners are not changed. In the end the cluster matches the spec.
func TestFaults(t *testing.T) {
	chaos.Run(t, chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&GameServers{}}, Quiet: 6 * time.Minute, // longer than a refused update rests
		New: func(w *chaos.World) chaos.Subject {
			l := &lobby{World: w, attempted: map[attempt]bool{}}
			return chaos.Subject{
				Setup: func(ctx context.Context, mgr manager.Manager) error { _, err := setup(ctx, mgr); return err },
				Begin: l.create, Users: l.users, Outside: l.release, Denies: l.denies, Settle: l.settle,
				Looks: l.look, Wrote: l.judge, Converged: l.converged,
			}
		},
	})
}

// lobby is the state of a fault schedule, that is a test run with random faults.
type lobby struct {
	*chaos.World

	// policy says which requests the API server refuses: none, patches of a Pod's spec, every write to a single Pod, or
	// new Pods.
	policy int
	denied string
	// attempted contains Pods that the operator has tried to write without an effect, perhaps because the API server
	// has refused the write.
	attempted map[attempt]bool
}

func (l *lobby) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource != "pods" {
		return nil
	}
	refused := false
	switch l.policy {
	case 1:
		refused = call.Verb == "patch" && call.Subresource == ""
	case 2:
		refused = call.Name == l.denied && (call.Verb == "delete" || call.Verb == "patch" && call.Subresource == "")
	case 3:
		refused = call.Verb == "create"
	}
	if !refused {
		return nil
	}
	if ordinalOf(call.Name)%2 == 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, call.Name, field.ErrorList{field.Forbidden(nil, "a policy says no")})
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

func (l *lobby) create() {
	g := &GameServers{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "games"}}
	l.resize(g)
	g.Spec.HistoryLimit, g.Spec.AskMatchMaker = 2, l.Chance(40)
	g.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if err := l.User.Create(context.Background(), g); err != nil {
		l.Failf("story", "%v", err)
	}
}

func (l *lobby) owner() *GameServers {
	g := &GameServers{}
	if err := l.User.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "games"}, g); err != nil {
		l.Failf("story", "%v", err)
	}
	return g
}

func (l *lobby) resize(g *GameServers) {
	g.Spec.Replicas, g.Spec.Start = l.Rand().IntN(5), l.Rand().IntN(2)*l.Rand().IntN(4)
	lists := [][]intstr.IntOrString{nil, nil, {intstr.FromInt32(1)}, {intstr.FromString("2-3")}, {intstr.FromInt32(0), intstr.FromString("02")}}
	g.Spec.Reserved = lists[l.Rand().IntN(len(lists))]
}

// users makes a random change as a user.
func (l *lobby) users() {
	switch n := l.Rand().IntN(20); {
	case n < 3:
		l.policy, l.denied = l.Rand().IntN(4), ""
		if pod := l.AnyPod(); pod != nil {
			l.denied = pod.Name
		}
		l.Logf("admission: policy %d, Pod %s", l.policy, l.denied)
	case n < 8:
		l.releaseOne()
	case n < 9:
		l.meddle()
	case n < 10 && l.Chance(50):
		l.mark()
	case n < 10:
		l.mangle()
	default:
		l.edit()
	}
}

func (l *lobby) edit() {
	g := l.owner()
	app := &g.Spec.Template.Spec.Containers[0]
	switch n := l.Rand().IntN(20); {
	case n < 9:
		app.Image = fmt.Sprintf("app:v%d", l.Rand().IntN(4))
	case n < 11:
		app.Command = []string{fmt.Sprintf("serve-%d", l.Rand().IntN(2))}
	case n < 13:
		g.Spec.Partition = l.Rand().IntN(4)
	case n < 14:
		g.Spec.MaxUnavailable = l.Rand().IntN(4)
	case n < 15:
		g.Spec.AskMatchMaker = !g.Spec.AskMatchMaker
	case n < 16:
		g.Spec.Partition = -1 // stored without admission
	default:
		l.resize(g)
	}
	l.update(g)
}

func (l *lobby) update(g *GameServers) {
	app := g.Spec.Template.Spec.Containers[0]
	l.Logf("user: %d from %d without %v, partition %d, %d unavailable, asks %t, image %s, command %v",
		g.Spec.Replicas, g.Spec.Start, g.Spec.Reserved, g.Spec.Partition, g.Spec.MaxUnavailable, g.Spec.AskMatchMaker, app.Image, app.Command)
	if err := l.User.Update(context.Background(), g); err != nil {
		l.Failf("story", "%v", err)
	}
}

// meddle creates, as another client, a Pod with a name of the GameServers' Pods, or deletes such a Pod.
func (l *lobby) meddle() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("games-%d", l.Rand().IntN(5))}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "other"}}
	if err := l.User.Create(context.Background(), pod); err == nil {
		l.Logf("user: Pod %s is somebody else's", pod.Name)
		return
	}
	l.giveBack()
}

func (l *lobby) giveBack() {
	for _, pod := range faultapi.All[*corev1.Pod](l.Server) {
		if metav1.GetControllerOf(pod) == nil && pod.DeletionTimestamp == nil {
			l.Logf("user: Pod %s is given back", pod.Name)
			if err := l.User.Delete(context.Background(), pod); err != nil {
				l.Failf("story", "%v", err)
			}
		}
	}
}

// mark adds, as a user, the label that requests a Pod's deletion.
func (l *lobby) mark() {
	if pod := l.AnyPod(); pod != nil && metav1.GetControllerOf(pod) != nil {
		l.label(pod, deleteLabel, "yes")
	}
}

// mangle makes the annotation with the progress of a Pod's update invalid. The annotation is never repaired.
func (l *lobby) mangle() {
	pod := l.AnyPod()
	if pod == nil || metav1.GetControllerOf(pod) == nil || slices.ContainsFunc(faultapi.All[*corev1.Pod](l.Server), isMangled) {
		return
	}
	changed := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, updateKey, "garbage")
	l.Logf("user: Pod %s is spoilt", pod.Name)
	if err := l.User.Update(context.Background(), changed); err != nil {
		l.Failf("story", "%v", err)
	}
}

const updateKey = group + "/update"

func isMangled(pod *corev1.Pod) bool { return pod.Annotations[updateKey] == "garbage" }

func (l *lobby) label(pod *corev1.Pod, key, value string) {
	changed := pod.DeepCopy()
	if changed.Labels[key] = value; value == "" {
		delete(changed.Labels, key)
	}
	l.Logf("user: Pod %s, label %s=%s", pod.Name, key, value)
	if err := l.User.Update(context.Background(), changed); err != nil {
		l.Failf("story", "%v", err)
	}
}

// waits reports whether a Pod waits until the match maker removes the hold label.
func waits(pod *corev1.Pod) bool {
	state := pod.Labels[stateLabel]
	return pod.Labels[holdLabel] != "" && (state == "PreparingUpdate" || state == "PreparingDelete")
}

// releaseOne ends a match: the match maker removes the hold label from a waiting Pod.
func (l *lobby) releaseOne() bool {
	waiting := slices.DeleteFunc(faultapi.All[*corev1.Pod](l.Server), func(pod *corev1.Pod) bool { return !waits(pod) })
	if len(waiting) == 0 {
		return false
	}
	l.label(waiting[l.Rand().IntN(len(waiting))], holdLabel, "")
	return true
}

func (l *lobby) release() bool { return l.releaseOne() }

// settle corrects the spec and ends the policy, so that the operator can reach the wanted state, except for an
// ordinal whose name a Pod of another owner has, and for a Pod with an invalid annotation.
func (l *lobby) settle() {
	l.policy = 0
	if l.Chance(50) {
		l.giveBack()
	}
	l.CatchUp()
	g := l.owner()
	g.Spec.Partition = max(g.Spec.Partition, 0)
	lost := 0 // number of ordinals that will never have a Pod
	for _, pod := range faultapi.All[*corev1.Pod](l.Server) {
		if slices.Contains(ordinalsOf(g), ordinalOf(pod.Name)) && (!l.isOurs(pod) || isMangled(pod) && !serves(pod)) {
			lost++
		}
	}
	g.Spec.MaxUnavailable = lost + 1
	l.update(g)
}

// ordinalsOf returns the wanted ordinals in order, computed without the operator's code, or nil if the spec is
// invalid.
func ordinalsOf(g *GameServers) []int {
	if g.Spec.Partition < 0 {
		return nil
	}
	reserved := map[int]bool{}
	for _, entry := range g.Spec.Reserved {
		switch entry.String() {
		case "2-3":
			reserved[2], reserved[3] = true, true
		case "02":
			reserved[2] = true
		default:
			reserved[entry.IntValue()] = true
		}
	}
	list := []int{}
	for o := g.Spec.Start; len(list) < g.Spec.Replicas; o++ {
		if !reserved[o] {
			list = append(list, o)
		}
	}
	return list
}

// ordinalOf parses a name without the operator's code.
func ordinalOf(name string) int {
	for o := range 20 {
		if name == fmt.Sprintf("games-%d", o) {
			return o
		}
	}
	return -1
}

// sight is the input of a reconciliation: the objects in the caches before the first write.
type sight struct {
	owner  *GameServers
	wanted []int
	// pods are the owner's Pods, by ordinal. serving are the ordinals of available Pods. taken are the ordinals of Pods
	// that the reconciliation has taken out of service.
	pods    map[int]*corev1.Pod
	serving map[int]bool
	taken   map[int]bool
	wrote   bool
	// unsure is true if the time at which the Pods were read is unknown: the reconciliation reads from the API server
	// before and after it reads the cache, and the cache has changed between these reads.
	unsure bool
}

func same(a, b *corev1.Pod) bool { return a.ResourceVersion == b.ResourceVersion }

func (l *lobby) look(t *chaos.Task, call *faultapi.Call) {
	if t.Controller != "gameservers" {
		return
	}
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{}
		t.View = v
	}
	writes := call != nil && !call.IsRead()
	if v.wrote = v.wrote || writes; writes && call.Resource.Resource == "pods" && call.Verb != "create" {
		if pod := v.pods[ordinalOf(call.Name)]; pod != nil {
			l.attempted[attempt{pod.UID, call.Verb}] = true
		}
	}
	if v.wrote {
		return
	}
	owner, pods := v.owner, v.pods
	if v.owner = (&GameServers{}); t.Process.Cache.Get(context.Background(), t.Object, v.owner) != nil {
		v.owner = nil
		return
	}
	defer func() {
		v.unsure = v.unsure || owner != nil && (owner.ResourceVersion != v.owner.ResourceVersion || !maps.EqualFunc(pods, v.pods, same))
	}()
	v.wanted = ordinalsOf(v.owner)
	v.pods, v.serving, v.taken = map[int]*corev1.Pod{}, map[int]bool{}, map[int]bool{}
	var list corev1.PodList
	if err := t.Process.Cache.List(context.Background(), &list); err != nil {
		l.Failf("story", "%v", err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; metav1.IsControlledBy(pod, v.owner) {
			o := ordinalOf(pod.Name)
			v.pods[o] = pod
			v.serving[o] = podstate.IsActive(pod) && serves(pod)
		}
	}
}

// serves reports whether a Pod is in service, and is not about to be taken out of service.
func serves(pod *corev1.Pod) bool {
	state := pod.Labels[stateLabel]
	return podstate.IsReady(pod) && podstate.GateOpen(pod, gate) && (state == "" || state == "Normal")
}

// down counts the wanted ordinals without a Pod in service.
func (v *sight) down() (n int) {
	for _, o := range v.wanted {
		if !v.serving[o] || v.taken[o] {
			n++
		}
	}
	return n
}

func (v *sight) isOutdated(pod *corev1.Pod) bool {
	return appOf(pod.Spec) != appOf(v.owner.Spec.Template.Spec)
}

func appOf(spec corev1.PodSpec) string {
	return fmt.Sprint(spec.Containers[0].Image, spec.Containers[0].Command)
}

// judge compares each write of a Pod with the objects that the reconciliation has seen.
func (l *lobby) judge(w *chaos.Write) {
	if w.Call.Resource.Resource != "pods" {
		return
	}
	v, _ := w.Task.View.(*sight)
	before, _ := w.Before.(*corev1.Pod)
	after, _ := w.After.(*corev1.Pod)
	switch {
	case before != nil && !l.isOurs(before):
		l.Failf("stranger", "%s of Pod %s, which is somebody else's", w.Call.Verb, before.Name)
	case v == nil || v.owner == nil:
		if w.Call.Verb == "delete" || w.Call.Verb == "create" {
			l.Failf("loops", "%s of Pod %s by the Pods' own loop", w.Call.Verb, w.Call.Name)
		}
	case v.unsure:
	case v.wanted == nil:
		l.Failf("invalid", "%s of Pod %s, while the spec makes no sense", w.Call.Verb, w.Call.Name)
	case before == nil:
		l.judgeCreation(v, after)
	default:
		delete(l.attempted, attempt{before.UID, w.Call.Verb})
		o := ordinalOf(before.Name)
		seen := v.pods[o]
		if seen == nil || seen.UID != before.UID {
			l.Failf("unseen", "%s of Pod %s, which the pass had not seen", w.Call.Verb, before.Name)
		}
		l.judgeHook(v, w, seen, after)
		if v.serving[o] && !v.taken[o] && (w.Call.Verb == "delete" || !podstate.GateOpen(after, gate) || !serves(after)) {
			v.taken[o] = true
			l.judgeTaking(v, o, seen)
		}
	}
}

func (l *lobby) isOurs(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, l.owner()) }

func (l *lobby) judgeCreation(v *sight, pod *corev1.Pod) {
	o := ordinalOf(pod.Name)
	rank := slices.Index(v.wanted, o)
	if rank < 0 {
		l.Failf("creation", "Pod %s, where %v are wanted", pod.Name, v.wanted)
	}
	for _, other := range faultapi.All[*corev1.Pod](l.Server) {
		if other.UID != pod.UID && l.isOurs(other) && ordinalOf(other.Name) == o {
			l.Failf("creation", "Pods %s and %s have ordinal %d", other.Name, pod.Name, o)
		}
	}
	want := appOf(v.owner.Spec.Template.Spec)
	if rank < v.owner.Spec.Partition {
		want = cmp.Or(l.appOfRevision(v.owner.Status.CurrentRevision), want)
	}
	if got := appOf(pod.Spec); got != want {
		l.Failf("revision", "Pod %s of rank %d, partition %d, is created with %s, want %s", pod.Name, rank, v.owner.Spec.Partition, got, want)
	}
	if v.owner.Spec.AskMatchMaker && pod.Labels[holdLabel] == "" {
		l.Failf("hook", "Pod %s is created without what holds it", pod.Name)
	}
}

func (l *lobby) appOfRevision(name string) string {
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](l.Server) {
		if rev.Name == name {
			content, err := revision.Decode(rev)
			if err != nil {
				l.Failf("story", "%v", err)
			}
			return appOf(content.Template.Spec)
		}
	}
	return ""
}

// judgeHook checks that the operator neither deletes nor restarts a Pod with the match maker's hold label.
func (l *lobby) judgeHook(v *sight, w *chaos.Write, seen, after *corev1.Pod) {
	touched := w.Call.Verb == "delete" || appOf(after.Spec) != appOf(w.Before.(*corev1.Pod).Spec)
	if touched && v.owner.Spec.AskMatchMaker && seen.Labels[holdLabel] != "" {
		l.Failf("hook", "%s of Pod %s, which is held", w.Call.Verb, seen.Name)
	}
}

// judgeTaking checks that the operator takes a Pod out of service only for a valid reason, only if the Pod is next in
// the order, and only if enough Pods are in service.
func (l *lobby) judgeTaking(v *sight, o int, pod *corev1.Pod) {
	rank, most := slices.Index(v.wanted, o), max(v.owner.Spec.MaxUnavailable, 1)
	marked := pod.Labels[deleteLabel] != ""
	if rank < 0 {
		left := 0
		for other, serving := range v.serving {
			if serving && !v.taken[other] {
				left++
			}
		}
		if left < len(v.wanted)-most {
			l.Failf("budget", "Pod %s, which is not wanted, leaves %d in service of %d", pod.Name, left, len(v.wanted))
		}
		return
	}
	if down := v.down(); down > most {
		l.Failf("budget", "without Pod %s, %d of the ordinals %v have none in service, %d may", pod.Name, down, v.wanted, most)
	}
	if marked {
		return
	}
	if rank < v.owner.Spec.Partition || !v.isOutdated(pod) {
		l.Failf("reason", "Pod %s of rank %d is taken out of service, partition %d, outdated %t", pod.Name, rank, v.owner.Spec.Partition, v.isOutdated(pod))
	}
	var first []int // the Pods that must be updated before, except Pods that the operator does not update
	for _, higher := range v.wanted[rank+1:] {
		other := v.pods[higher]
		if v.serving[higher] && !v.taken[higher] && v.isOutdated(other) && !l.wasAttempted(other) && !isMangled(other) && other.Labels[deleteLabel] == "" {
			first = append(first, higher)
		}
	}
	if len(first) >= most {
		l.Failf("order", "Pod %s is updated before %v", pod.Name, first)
	}
}

// attempt identifies a Pod and a kind of write, because a successful update says nothing about a refused deletion.
type attempt struct {
	pod  types.UID
	verb string
}

func (l *lobby) wasAttempted(pod *corev1.Pod) bool {
	return l.attempted[attempt{pod.UID, "patch"}] || l.attempted[attempt{pod.UID, "delete"}]
}

// converged checks that exactly the wanted Pods exist, and each Pod is in service and matches the template.
func (l *lobby) converged() {
	g := l.owner()
	wanted := ordinalsOf(g)
	got, odd := map[int]bool{}, false
	for _, pod := range faultapi.All[*corev1.Pod](l.Server) {
		o := ordinalOf(pod.Name)
		rank := slices.Index(wanted, o)
		if ours := l.isOurs(pod); !ours || isMangled(pod) {
			got[o], odd = ours || rank >= 0, odd || ours || rank >= 0
			continue
		}
		got[o] = true
		if !podstate.IsActive(pod) || !serves(pod) || rank >= g.Spec.Partition && appOf(pod.Spec) != appOf(g.Spec.Template.Spec) {
			l.Failf("converged", "Pod %s of rank %d: ready %t, state %q, %s, want %s; partition %d",
				pod.Name, rank, podstate.IsReady(pod), pod.Labels[stateLabel], appOf(pod.Spec), appOf(g.Spec.Template.Spec), g.Spec.Partition)
		}
	}
	maps.DeleteFunc(got, func(_ int, there bool) bool { return !there })
	if list := slices.Sorted(maps.Keys(got)); !slices.Equal(list, wanted) {
		l.Failf("converged", "Pods %v, want %v", list, wanted)
	}
	if c := meta.FindStatusCondition(g.Status.Conditions, "Failed"); c == nil || c.Status != metav1.ConditionFalse && !odd {
		l.Failf("converged", "condition %+v", c)
	}
	// The history contains the revisions in use, the current revision, the template's revision, and as many others as
	// the limit.
	if n := len(faultapi.All[*appsv1.ControllerRevision](l.Server)); n == 0 || n > len(got)+2+g.Spec.HistoryLimit {
		l.Failf("converged", "%d revisions", n)
	}
}
