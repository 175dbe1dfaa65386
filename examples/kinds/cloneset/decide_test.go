package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

var decidedAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// dice are bytes that determine the choices of a fuzz test. After the last byte, each choice is the first of the
// possible choices.
type dice []byte

func (d *dice) of(n int) int {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return int(b) % n
}

func (d *dice) yes() bool { return d.of(2) == 1 }

// drawn is a CloneSet with the objects of its namespace.
type drawn struct {
	cs       *v1beta1.CloneSet
	options  Options
	have     []client.Object
	unborn   sets.Set[string]
	inPlace  bool
	hopeless string
	busy     string
}

// draw returns a CloneSet with other objects that the bytes determine. Every sequence of bytes is valid.
func draw(d dice) *drawn {
	w := &drawn{cs: drawCloneSet(&d), unborn: sets.New[string](), inPlace: d.yes()}
	w.options.Gates = map[apps.Gate]bool{apps.GateCloneSetPartitionRollback: d.yes(), apps.GatePreparingUpdateAsUpdate: d.yes()}
	for _, name := range []*string{&w.hopeless, &w.busy} {
		*name = "web-" + string(rune('a'+d.of(20)))
	}
	for id := 'a'; id < 'a'+12 && len(d) > 0; id++ {
		w.drawPod(&d, string(id))
	}
	return w
}

func drawCloneSet(d *dice) *v1beta1.CloneSet {
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "cs"}}
	cs.Spec.Replicas = ptr.To(int32(d.of(8)))
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.Labels = map[string]string{"app": "web"}
	cs.Spec.MinReadySeconds = int32(d.of(2) * 90)
	ru := &v1beta1.RollingUpdateCloneSet{
		PodUpdatePolicy: []v1beta1.CloneSetPodUpdatePolicy{v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly}[d.of(3)],
		Partition:       ptr.To(intstr.FromInt32(int32(d.of(6)))),
		MaxUnavailable:  ptr.To(intstr.FromInt32(int32(d.of(4)))),
		Paused:          d.of(6) == 1,
	}
	if ru.PodUpdatePolicy != v1beta1.InPlaceOnly {
		ru.MaxSurge = ptr.To(intstr.FromInt32(int32(d.of(3))))
	}
	cs.Spec.UpdateStrategy.RollingUpdate = ru
	if d.of(6) == 1 {
		cs.Spec.UpdateStrategy.Type = v1beta1.OnDelete
	}
	if d.of(3) == 1 {
		cs.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(int32(d.of(4))))
	}
	cs.Spec.ScaleStrategy.EnablePVCReuse, cs.Spec.ScaleStrategy.ExcludePreparingDelete = d.yes(), d.yes()
	if d.of(3) == 1 {
		cs.Spec.ScaleStrategy.PodsToDelete = []string{"web-a", "web-d", "nobody"}
	}
	cs.Spec.VolumeClaimTemplates = claimTemplates("data", "logs")[:d.of(3)]
	cs.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "on"}, MarkPodNotReady: d.of(4) == 1}}
	return cs
}

// drawPod adds a Pod with an instance id and its claims, or only some of these objects.
func (w *drawn) drawPod(d *dice, id string) {
	owner := *metav1.NewControllerRef(w.cs, v1beta1.GroupVersion.WithKind("CloneSet"))
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{apps.LabelInstanceID: id, "app": "web", apps.LabelRevision: "web-1"},
		}
	}
	name := podName(w.cs, id)
	claims, fate := d.of(4), d.of(9)
	pod := &corev1.Pod{ObjectMeta: meta(name)}
	for i, template := range []string{"data", "logs"} {
		if claims&(i+1) == 0 {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta(pvc.Name(template, name))}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
		switch d.of(6) {
		case 1:
			claim.DeletionTimestamp = ptr.To(metav1.NewTime(decidedAt))
		case 2:
			claim.OwnerReferences = nil
		}
		w.have = append(w.have, claim)
	}
	switch fate {
	case 0: // the Pod is lost
		if d.yes() {
			w.unborn.Insert(name)
		}
		return
	case 1:
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(decidedAt))
	case 2:
		pod.Status.Phase = corev1.PodFailed
	case 3:
		pod.OwnerReferences = nil
	case 4:
		pod.Labels["app"] = "relabelled"
	}
	w.have = append(w.have, pod)
	w.drawState(d, pod)
}

func (w *drawn) drawState(d *dice, pod *corev1.Pod) {
	if d.yes() {
		pod.Labels[apps.LabelRevision] = "web-2"
	}
	if d.of(5) == 1 {
		pod.Labels[apps.LabelSpecifiedDelete] = "true"
	}
	if state := []string{"Normal", "Normal", "", "PreparingNormal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete"}[d.of(8)]; state != "" {
		pod.Labels[apps.LabelLifecycleState] = state
	}
	if ready := d.of(3); ready > 0 && pod.Status.Phase == "" {
		pod.Status.Phase, pod.Spec.NodeName = corev1.PodRunning, "node"
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(decidedAt.Add(-time.Duration(ready) * time.Minute)),
		}}
	}
}

// observed returns the input of a decision for the objects. reverse reverses the order of the objects in the cache,
// because decisions must not depend on the order.
func (w *drawn) observed(t *testing.T, reverse bool) *observation {
	t.Helper()
	inPlace, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedPodLabels())
	if err != nil {
		t.Fatal(err)
	}
	config, err := kruise.PodControl(inPlace, podcontrol.Config{HashLabel: apps.LabelPodTemplateHash, FullRevisions: true, DeleteLabel: apps.LabelSpecifiedDelete})
	if err != nil {
		t.Fatal(err)
	}
	control, err := podcontrol.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s, problems, _ := resolve(w.cs, w.options)
	if problems != nil {
		t.Fatalf("the spec is not valid: %v", problems.Reasons())
	}
	have := slices.Clone(w.have)
	if reverse {
		slices.Reverse(have)
	}
	histories, err := revision.NewHistories(kruise.RevisionKeys(apps.LabelRevisionHash), revision.NewDecoder(2, nil))
	if err != nil {
		t.Fatal(err)
	}
	var revisions []*appsv1.ControllerRevision
	for i, name := range []string{"web-1", "web-2"} {
		revisions = append(revisions, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Revision: int64(i)})
	}
	revisions[0].Annotations = map[string]string{apps.AnnotationClaimTemplates: `[{"metadata":{"name":"data"}}]`}
	kind := cloneSetKind()
	o := &observation{
		cs: w.cs, settings: s, unborn: w.unborn, refused: sets.List(w.unborn), world: worldOf(have), owner: *metav1.NewControllerRef(w.cs, kind),
		history: histories.Of(revision.OwnerOf(w.cs, kind), nil, revisions),
	}
	o.current, o.update = revisions[0], revisions[1]
	o.history.Update = o.update
	var pods []*corev1.Pod
	for _, object := range have {
		switch object := object.(type) {
		case *corev1.Pod:
			if metav1.IsControlledBy(object, w.cs) {
				pods = append(pods, object)
			}
		case *corev1.PersistentVolumeClaim:
			if metav1.IsControlledBy(object, w.cs) {
				o.claims = append(o.claims, object)
			}
		}
	}
	want := podcontrol.Want{Update: "web-2", MinReady: s.minReady, Delete: w.cs.Spec.ScaleStrategy.PodsToDelete, Selector: s.selector}
	o.pods = podcontrol.NewReader(control).Read(w.cs.UID, pods, want, decidedAt)
	if o.isOver() {
		o.current = o.update
	}
	plan := &inplaceupdate.Plan{}
	if !w.inPlace {
		plan.Blocking = reason.List{{Code: inplaceupdate.ImmutableField}}
	}
	next := -1
	o.world.newID = func() string { // the id generator returns two used ids before a new id
		if next++; next%3 < 2 {
			return string(rune('a' + next%12))
		}
		return fmt.Sprint("n", next)
	}
	o.world.plan = func(_, _ *appsv1.ControllerRevision) *inplaceupdate.Plan { return plan }
	o.world.rest = func(pod *podcontrol.Pod) time.Duration {
		if pod.Name == w.hopeless {
			return time.Minute
		}
		return 0
	}
	o.world.busy = func(pod *corev1.Pod) bool { return pod.Name == w.busy }
	o.world.nodeLabels = func(string) (map[string]string, bool) { return nil, false }
	return o
}

func cloneSetKind() schema.GroupVersionKind { return v1beta1.GroupVersion.WithKind("CloneSet") }

// said returns the names of the Pods and claims in the decision, for each list of the decision.
func (t *todo) said() map[string][]string {
	out := map[string][]string{"create old": t.createOld, "create": t.create, "target": {t.target.Name}}
	for _, transfer := range t.handOver {
		out["hand over"] = append(out["hand over"], transfer.Claim.Name+" to "+transfer.Pod.Name)
	}
	for _, claim := range t.deleteClaims {
		out["delete claim"] = append(out["delete claim"], claim.Name)
	}
	slices.Sort(out["hand over"]) // the order has no meaning
	slices.Sort(out["delete claim"])
	for what, list := range t.lists() {
		for _, pod := range list {
			out[what] = append(out[what], pod.Name)
		}
	}
	return out
}

func (t *todo) lists() map[string][]*corev1.Pod {
	return map[string][]*corev1.Pod{"cancel": t.cancel, "leaving": t.Leaving, "delete": t.Delete, "settle": t.Settle, "update": t.Update}
}

// FuzzDecide: for any objects, a decision contains only existing Pods and unused names, keeps replicas, maxSurge and
// maxUnavailable, and is the same each time.
func FuzzDecide(f *testing.F) {
	up := []byte{0, 8, 0, 0, 0, 1}      // an old Pod in service
	updated := []byte{0, 8, 1, 0, 0, 1} // a new Pod
	lost := []byte{3, 0, 0, 0, 0}       // claims without a Pod
	leaving := []byte{3, 1, 0, 0, 0, 0, 0, 1}
	begin := func(replicas, policy, partition, unavailable byte, more ...byte) []byte {
		spec := append([]byte{replicas, 0, policy, partition, unavailable, 0}, more...)
		return append(spec, make([]byte, max(0, 20-len(spec)))...)
	}
	f.Add(slices.Concat(begin(3, 1, 0, 1), up, up, up))
	f.Add(slices.Concat(begin(3, 0, 1, 1, 1), up, up, updated))
	f.Add(slices.Concat(begin(1, 2, 0, 2), up, up, updated, up))
	f.Add(slices.Concat(begin(4, 1, 0, 1, 0, 0, 0, 1, 0, 0, 2), lost, lost, up, leaving))
	f.Add(slices.Concat(begin(4, 1, 0, 1, 0, 0, 0, 0, 0, 0, 2), lost, leaving, up, lost))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := draw(data)
		o := w.observed(t, false)
		todo := decide(o)
		o.checkPods(t, todo)
		o.checkNames(t, todo)
		o.checkClaims(t, todo)
		o.checkBudgets(t, todo)
		if diff := cmp.Diff(todo.said(), decide(w.observed(t, true)).said()); diff != "" {
			t.Errorf("decided again (-first +second):\n%s", diff)
		}
		if t.Failed() {
			t.Logf("decided: %v", todo.said())
			for _, object := range w.have {
				t.Logf("%T %s %v, dying %t, owned %t", object, object.GetName(), object.GetLabels(), object.GetDeletionTimestamp() != nil, metav1.IsControlledBy(object, w.cs))
			}
		}
	})
}

// checkPods checks that every Pod in a decision is active and is in a single list, except lists that may overlap.
func (o *observation) checkPods(t *testing.T, todo *todo) {
	t.Helper()
	in := map[string][]string{}
	for what, list := range todo.lists() {
		for _, pod := range list {
			p := o.pods.Of(pod)
			if p == nil || p.Pod != pod || !podstate.IsActive(pod) {
				t.Errorf("%s: Pod %s is not an active one of the CloneSet", what, pod.Name)
				continue
			}
			in[pod.Name] = append(in[pod.Name], what)
			if fits := map[string]bool{
				"cancel": p.Leaving && !p.Specified, "leaving": p.Leaving, "delete": !p.Leaving,
				"settle": p.State == lifecycle.PreparingUpdate, "update": !p.Leaving && !p.Specified && p.Updated == todo.Back,
			}; !fits[what] {
				t.Errorf("%s: Pod %s is in state %q, specified %t, updated %t, back %t", what, pod.Name, p.State, p.Specified, p.Updated, todo.Back)
			}
		}
	}
	// A Pod to delete may also be in the list cancel, which cancels the deletion, or, after a refused deletion, in
	// the lists settle or update. No other lists overlap.
	together := [][]string{{"cancel", "leaving"}, {"delete", "settle"}, {"delete", "update"}}
	for name, lists := range in {
		slices.Sort(lists)
		if len(lists) > 1 && !slices.ContainsFunc(together, func(pair []string) bool { return slices.Equal(pair, lists) }) {
			t.Errorf("Pod %s is in %v", name, lists)
		}
	}
}

// checkNames checks that new Pods have new names. A new Pod gets the claim of an earlier Pod only if the claim is
// kept for reuse.
func (o *observation) checkNames(t *testing.T, todo *todo) {
	t.Helper()
	names := slices.Concat(todo.createOld, todo.create)
	seen := map[string]bool{}
	for _, name := range names {
		if _, exists := o.world.pod(name); exists || seen[name] || !strings.HasPrefix(name, "web-") {
			t.Errorf("the name %s of a new Pod is taken", name)
		}
		seen[name] = true
		for _, template := range []string{"data", "logs"} {
			claim, exists := o.world.claim(pvc.Name(template, name))
			if !exists {
				continue
			}
			waits := o.cs.Spec.ScaleStrategy.EnablePVCReuse || o.unborn.Has(name)
			// A claim of another owner is a problem only if a claim template still contains the claim.
			needed := template == "data" && o.current != o.update || slices.ContainsFunc(o.cs.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == template })
			if owned := metav1.IsControlledBy(claim, o.cs); owned && (!waits || claim.DeletionTimestamp != nil) || !owned && needed {
				t.Errorf("the new Pod %s would have claim %s: waits for it %t, owned %t, dying %t", name, claim.Name, waits, owned, claim.DeletionTimestamp != nil)
			}
		}
	}
	counted := len(o.pods.Active)
	if o.settings.rollout.ExcludePreDeleting {
		counted = len(o.pods.Select(func(p *podcontrol.Pod) bool { return !p.Leaving }))
	}
	if most := o.settings.rollout.Replicas + o.settings.rollout.MaxSurge; len(names) > 0 && counted+len(names) > most || len(names) > fanout.PerPass {
		t.Errorf("%d Pods are created beside %d, at most %d are wanted", len(names), counted, most)
	}
}

// checkClaims checks that only unused claims are deleted.
func (o *observation) checkClaims(t *testing.T, todo *todo) {
	t.Helper()
	podOf := o.world.claimsOf(o.cs).PodOf
	isActive := func(name string) bool {
		return slices.ContainsFunc(o.pods.Active, func(p podcontrol.Pod) bool { return p.Name == name })
	}
	gone := sets.New[string]()
	for _, claim := range todo.deleteClaims {
		gone.Insert(claim.Name)
		if len(o.world.users(claim)) > 0 || !metav1.IsControlledBy(claim, o.cs) || o.cs.Spec.ScaleStrategy.EnablePVCReuse || isActive(podOf(claim)) || o.unborn.Has(podOf(claim)) {
			t.Errorf("claim %s is deleted, its users are %d", claim.Name, len(o.world.users(claim)))
		}
		if slices.Contains(slices.Concat(todo.createOld, todo.create), podOf(claim)) {
			t.Errorf("claim %s is deleted, and its Pod created", claim.Name)
		}
	}
	for _, transfer := range todo.handOver {
		if isActive(transfer.Pod.Name) && metav1.IsControlledBy(transfer.Pod, o.cs) || gone.Has(transfer.Claim.Name) || podOf(transfer.Claim) != transfer.Pod.Name {
			t.Errorf("claim %s is handed over to %s", transfer.Claim.Name, transfer.Pod.Name)
		}
	}
}

// checkBudgets checks the decision against the documentation of the fields, independently of the controller's
// calculation.
func (o *observation) checkBudgets(t *testing.T, todo *todo) {
	t.Helper()
	spec := &o.settings.rollout
	available := len(o.pods.Select(func(p *podcontrol.Pod) bool { return p.Available }))
	least := spec.Replicas - spec.MaxUnavailable
	taken := func(list []*corev1.Pod) (n int) {
		for _, pod := range list {
			if o.pods.Of(pod).Available {
				n++
			}
		}
		return n
	}
	for what, list := range map[string][]*corev1.Pod{"deleted": todo.Delete, "updated": todo.Update} {
		if n := taken(list); n > 0 && available-n < least {
			t.Errorf("%d available Pods of %d are %s, %d have to stay", n, available, what, least)
		}
	}
	unasked := 0
	for _, pod := range todo.Delete {
		if !o.pods.Of(pod).Specified {
			unasked++
		}
	}
	if left := len(o.pods.Active) - unasked; unasked > 0 && left < spec.Replicas {
		t.Errorf("%d Pods are deleted that nobody has named, %d of %d are left", unasked, left, spec.Replicas)
	}
	old := len(o.pods.Select(func(p *podcontrol.Pod) bool { return !p.Updated && !p.Leaving && !p.Specified }))
	switch {
	case !o.settings.updates && len(todo.Update) > 0:
		t.Error("Pods are updated while that is paused")
	case todo.Back && (!spec.Rollback || todo.target != o.current), !todo.Back && todo.target != o.update:
		t.Errorf("the target is %s, back %t", todo.target.Name, todo.Back)
	case !todo.Back && len(todo.Update) > max(old-spec.Partition, 0):
		t.Errorf("%d of %d old Pods are updated, partition %d", len(todo.Update), old, spec.Partition)
	}
	for _, pod := range todo.Update {
		if o.world.busy(pod) {
			t.Errorf("Pod %s is updated, and busy", pod.Name)
		}
	}
}
