package statefulset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// hasUselessLimit reports whether a StatefulSet with OrderedReady has a limit other than 1.
func (w *story) hasUselessLimit(set *v1beta1.StatefulSet) bool {
	limits := []*intstr.IntOrString{set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable}
	if scale := set.Spec.ScaleStrategy; scale != nil {
		limits = append(limits, scale.MaxUnavailable)
	}
	return !w.parallel && slices.ContainsFunc(limits, func(limit *intstr.IntOrString) bool { return limit != nil && *limit != intstr.FromInt32(1) })
}

// sight is the input of a reconciliation: the objects in the caches before the first write.
type sight struct {
	owner  *v1beta1.StatefulSet
	wanted []int
	// pods are the owner's Pods, by ordinal. serving are the ordinals of available Pods. taken are the ordinals of Pods
	// that the reconciliation has taken out of service.
	pods    map[int]*corev1.Pod
	serving map[int]bool
	taken   map[int]bool
	wrote   bool
	earlier *sight
	// small are the ordinals whose claims request less than the template. stuck are the ordinals in small whose
	// claims cannot grow. growing are the ordinals whose volumes have not grown yet; the value is true if the file
	// system will grow as soon as a new Pod mounts the volume.
	small, stuck map[int]bool
	growing      map[int]bool
	// dying are the ordinals whose claims are being deleted.
	dying map[int]bool
	// adoptable are the names of Pods that were selected and had no controller at some time during the reconciliation.
	adoptable map[string]bool
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	if t.Controller != "statefulset" {
		return
	}
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{adoptable: map[string]bool{}}
		t.View = v
	}
	writes := call != nil && !call.IsRead()
	v.sawBeforeRead(call)
	// The controller reads a StorageClass after all decisions.
	v.wrote = v.wrote || writes || call != nil && call.Resource.Resource == "storageclasses"
	if writes && call.Verb != "create" {
		if pod := v.pods[ordinalOf(strings.TrimPrefix(call.Name, "data-"))]; pod != nil {
			w.attempted[pod.UID] = true
		}
		if call.Resource.Resource == "persistentvolumeclaims" {
			w.attempted[w.claimOf(ordinalOf(strings.TrimPrefix(call.Name, "data-")))] = true
		}
	}
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.GetControllerOf(pod) == nil && pod.Labels["app"] == "web" {
			v.adoptable[pod.Name] = true
		}
	}
	if v.wrote {
		if v.owner != nil && call != nil && call.Resource.Resource == "controllerrevisions" {
			w.lookAtClaims(t, v) // claims are read after the revision was found or created
		}
		return
	}
	if v.owner = (&v1beta1.StatefulSet{}); t.Process.Cache.Get(context.Background(), t.Object, v.owner) != nil {
		v.owner = nil
		return
	}
	v.wanted = ordinalsOf(v.owner)
	w.lookAtClaims(t, v)
	v.pods, v.serving, v.taken = map[int]*corev1.Pod{}, map[int]bool{}, map[int]bool{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.IsControlledBy(pod, v.owner) {
			o := ordinalOf(pod.Name)
			v.pods[o] = pod
			v.serving[o] = podstate.IsActive(pod) && serves(pod) && !w.agents.IsAway(pod)
		}
	}
}

// sawBeforeRead restores an earlier input: before an adoption, the controller reads the StatefulSet from the API
// server, and all decisions were made before this read.
func (v *sight) sawBeforeRead(call *faultapi.Call) {
	switch {
	case call == nil || v.wrote:
	case call.Verb == "get" && call.Resource.Resource == "statefulsets":
		earlier := *v
		v.earlier = &earlier
	case v.earlier != nil && call.Verb == "patch" && call.Resource.Resource == "pods" && v.adoptable[call.Name] && v.earlier.pods[ordinalOf(call.Name)] == nil:
		*v = *v.earlier
	}
}

// serves reports whether the Pod of an ordinal is in service and its volume has grown.
func (v *sight) serves(o int) bool {
	_, grows := v.growing[o]
	return v.serving[o] && !grows
}

// down counts the wanted ordinals without a Pod in service.
func (v *sight) down() (n int) {
	for _, o := range v.wanted {
		if !v.serves(o) || v.taken[o] {
			n++
		}
	}
	return n
}

func (v *sight) isOutdated(pod *corev1.Pod) bool {
	return appOf(pod.Spec) != appOf(v.owner.Spec.Template.Spec) || v.small[ordinalOf(pod.Name)]
}

// most returns the largest number of wanted ordinals without a Pod in service with which the controller may still
// take another Pod out of service.
func (v *sight) most() int {
	if budget := v.owner.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable; budget != nil {
		return max(budget.IntValue(), 1)
	}
	return 1
}

func (v *sight) partition() int {
	return int(ptr.Deref(v.owner.Spec.UpdateStrategy.RollingUpdate.Partition, 0))
}

func appOf(spec corev1.PodSpec) string {
	return fmt.Sprint(spec.Containers[0].Image, spec.Containers[0].Command)
}

// judge compares each write with the objects that the reconciliation has seen.
func (w *story) judge(x *chaos.Write) {
	v, _ := x.Task.View.(*sight)
	switch x.Call.Resource.Resource {
	case "persistentvolumeclaims":
		w.judgeClaim(v, x)
		return
	case "containerrecreaterequests":
		w.judgeRestart(v, x)
		return
	case "pods":
	default:
		return
	}
	before, _ := x.Before.(*corev1.Pod)
	after, _ := x.After.(*corev1.Pod)
	adopts := before != nil && after != nil && metav1.GetControllerOf(before) == nil && w.isOurs(after)
	switch {
	case adopts:
		if !v.adoptable[before.Name] || ordinalOf(before.Name) < 0 {
			w.Failf("stranger", "Pod %s is adopted, which is not selected", before.Name)
		}
	case before != nil && !w.isOurs(before):
		w.Failf("stranger", "%s of Pod %s, which is somebody else's", x.Call.Verb, before.Name)
	case v == nil || v.owner == nil:
		if x.Call.Verb == "delete" || x.Call.Verb == "create" {
			w.Failf("loops", "%s of Pod %s by the Pods' own loop", x.Call.Verb, x.Call.Name)
		}
	case v.wanted == nil:
		w.Failf("invalid", "%s of Pod %s, while the spec makes no sense", x.Call.Verb, x.Call.Name)
	case before == nil:
		w.judgeCreation(v, after)
	case after != nil && metav1.GetControllerOf(after) == nil: // released
		if seen := v.pods[ordinalOf(before.Name)]; seen == nil || seen.Labels["app"] == "web" {
			w.Failf("release", "Pod %s is released, which is selected", before.Name)
		}
	default:
		w.judgeChange(v, x, before, after)
	}
}

// judgeRestart checks that a restart of containers stays within the budget of updates, and restarts only Pods that
// the partition includes.
func (w *story) judgeRestart(v *sight, x *chaos.Write) {
	if v == nil || v.owner == nil {
		w.Failf("restart", "%s of %s by another loop", x.Call.Verb, x.Call.Name)
	}
	ru := v.owner.Spec.UpdateStrategy.RollingUpdate
	if r, ok := x.After.(*v1beta1.ContainerRecreateRequest); ok && x.Before == nil {
		if rank := slices.Index(v.wanted, ordinalOf(r.Spec.PodName)); rank >= 0 && rank < v.partition() {
			w.Failf("restart", "Pod %s of rank %d is restarted, partition %d", r.Spec.PodName, rank, v.partition())
		}
	}
	w.agents.Judge(x, restarttest.View{
		Owner: v.owner, Pods: slices.Collect(maps.Values(v.pods)), Least: len(v.wanted) - v.most(), Paused: ru.Paused,
		IsAvailable: func(pod *corev1.Pod) bool {
			o := ordinalOf(pod.Name)
			return slices.Contains(v.wanted, o) && v.serving[o] && !v.taken[o]
		},
	})
}

func (w *story) judgeChange(v *sight, x *chaos.Write, before, after *corev1.Pod) {
	o := ordinalOf(before.Name)
	seen := v.pods[o]
	if seen == nil || seen.UID != before.UID {
		w.Failf("unseen", "%s of Pod %s, which the pass had not seen", x.Call.Verb, before.Name)
	}
	touched := x.Call.Verb == "delete" || appOf(after.Spec) != appOf(before.Spec)
	if touched || serves(before) != serves(after) { // a label with the Pod's name is no update
		delete(w.attempted, before.UID)
	}
	if held := seen.Labels[holdDelete] != "" && x.Call.Verb == "delete" || seen.Labels[holdUpdate] != "" && x.Call.Verb != "delete"; w.hooks && touched && held {
		w.Failf("hook", "%s of Pod %s, which is held", x.Call.Verb, seen.Name)
	}
	if touched {
		w.judgeUngrown(v, o, seen)
	}
	if v.serves(o) && !v.taken[o] && (x.Call.Verb == "delete" || serves(before) && !serves(after)) {
		v.taken[o] = true
		w.judgeTaking(v, o, seen)
	}
}

func (w *story) judgeCreation(v *sight, pod *corev1.Pod) {
	o := ordinalOf(pod.Name)
	rank := slices.Index(v.wanted, o)
	if rank < 0 {
		w.Failf("creation", "Pod %s, where %v are wanted", pod.Name, v.wanted)
	}
	if pod.Labels[apps.LabelPodName] != pod.Name || pod.Labels[apps.LabelPodIndex] != fmt.Sprint(o) || pod.Spec.Hostname != pod.Name || pod.Spec.Subdomain != "web" {
		w.Failf("identity", "Pod %s: labels %v, host name %s.%s", pod.Name, pod.Labels, pod.Spec.Hostname, pod.Spec.Subdomain)
	}
	for _, lower := range v.wanted[:rank] {
		if !w.parallel && !v.serves(lower) {
			w.Failf("order", "Pod %s is created before %d serves", pod.Name, lower)
		}
	}
	want := appOf(v.owner.Spec.Template.Spec)
	if rank < v.partition() {
		want = cmp.Or(w.appOfRevision(v.owner.Status.CurrentRevision), want)
	}
	if got := appOf(pod.Spec); got != want {
		w.Failf("revision", "Pod %s of rank %d, partition %d, is created with %s, want %s", pod.Name, rank, v.partition(), got, want)
	}
	if w.claims {
		claim := &corev1.PersistentVolumeClaim{}
		if err := w.User.Get(context.Background(), claimOf(pod), claim); !w.dropped[claimOf(pod).Name] {
			w.must(err)
		}
		goes := func(ref metav1.OwnerReference) bool { return ref.Kind == "Pod" }
		if v.dying[o] || slices.ContainsFunc(claim.OwnerReferences, goes) {
			w.Failf("claims", "Pod %s is created while its claim is on its way out, or goes with %+v", pod.Name, claim.OwnerReferences)
		}
	}
}

func (w *story) appOfRevision(name string) string {
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if rev.Name == name {
			content, err := revision.Decode(rev)
			w.must(err)
			return appOf(content.Template.Spec)
		}
	}
	return ""
}

// judgeTaking checks that the controller takes a Pod out of service only for a valid reason, only if the Pod is next
// in the order, and only if enough Pods are in service.
func (w *story) judgeTaking(v *sight, o int, pod *corev1.Pod) {
	rank, most := slices.Index(v.wanted, o), v.most()
	if rank < 0 {
		w.judgeScaleIn(v, o, pod)
		return
	}
	if down := v.down(); down > most {
		w.Failf("budget", "without Pod %s, %d of the ordinals %v have none in service, %d may", pod.Name, down, v.wanted, most)
	}
	if v.owner.Spec.UpdateStrategy.RollingUpdate.Paused {
		w.Failf("paused", "Pod %s is taken out of service", pod.Name)
	}
	if pod.Labels[apps.LabelSpecifiedDelete] != "" {
		return
	}
	if rank < v.partition() || !v.isOutdated(pod) {
		w.Failf("reason", "Pod %s of rank %d is taken out of service, partition %d, outdated %t", pod.Name, rank, v.partition(), v.isOutdated(pod))
	}
	var first []int // the Pods that must be updated before, except Pods that the controller does not update
	for _, higher := range v.wanted[rank+1:] {
		other := v.pods[higher]
		if v.serves(higher) && !v.taken[higher] && v.isOutdated(other) && !v.stuck[higher] && !w.attempted[other.UID] && !w.attempted[w.claimOf(higher)] && other.Labels[apps.LabelSpecifiedDelete] == "" {
			first = append(first, higher)
		}
	}
	if len(first) >= most {
		w.Failf("order", "Pod %s is updated before %v", pod.Name, first)
	}
}

// judgeScaleIn checks deletions with OrderedReady. An unwanted Pod is deleted only if all wanted Pods are in service
// and no Pod with a higher ordinal exists.
func (w *story) judgeScaleIn(v *sight, o int, pod *corev1.Pod) {
	if policy := v.owner.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil && policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		claim := &corev1.PersistentVolumeClaim{}
		err := w.User.Get(context.Background(), claimOf(pod), claim)
		if err == nil && claim.DeletionTimestamp == nil && !slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == pod.UID }) {
			w.Failf("claims", "Pod %s goes, which is not wanted, and its claim does not go with it", pod.Name)
		}
	}
	if w.parallel {
		return
	}
	if down := v.down(); down > 0 {
		w.Failf("order", "Pod %s is deleted while %d of %v do not serve", pod.Name, down, v.wanted)
	}
	for other, theirs := range v.pods {
		if other > o && !slices.Contains(v.wanted, other) {
			w.Failf("order", "Pod %s is deleted before %d", pod.Name, other)
		}
		if other < o && !slices.Contains(v.wanted, other) && podstate.IsActive(pod) && podstate.IsActive(theirs) && !v.serves(o) && !v.serves(other) {
			w.Failf("order", "Pod %s is deleted, which does not serve, and nor does %d, which is to go after it", pod.Name, other)
		}
	}
}

// claimOf returns the UID of an ordinal's claim, or "" if there is none.
func (w *story) claimOf(o int) types.UID {
	claim, _ := w.Server.Stored(&corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("data-web-%d", o)}).(*corev1.PersistentVolumeClaim)
	if claim == nil {
		return ""
	}
	return claim.UID
}

// judgeClaim checks that the controller deletes no claim, and that no claim of a wanted ordinal has its Pod as owner.
func (w *story) judgeClaim(v *sight, x *chaos.Write) {
	claim, _ := x.After.(*corev1.PersistentVolumeClaim)
	if claim == nil || claim.DeletionTimestamp != nil {
		w.Failf("claims", "%s of claim %s", x.Call.Verb, x.Call.Name)
	}
	o := ordinalOf(claim.Name[len("data-"):])
	if before, ok := x.Before.(*corev1.PersistentVolumeClaim); ok {
		w.judgeGrowth(v, o, before, claim)
	}
	for _, ref := range claim.OwnerReferences {
		if ref.Kind == "Pod" && (v == nil || slices.Contains(v.wanted, o)) {
			w.Failf("claims", "claim %s goes with Pod %s, which is wanted", claim.Name, ref.Name)
		}
	}
}

// converged checks that exactly the wanted Pods exist, and each Pod is in service and matches the template.
func (w *story) converged() {
	set := w.owner()
	if w.senseless {
		if !faulttest.IsTold(set, set.Status.ObservedGeneration, set.Status.Conditions) {
			w.Failf("told", "nobody is told of the senseless spec of generation %d: %+v", set.Generation, set.Status)
		}
		return
	}
	wanted, partition := ordinalsOf(set), int(ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate.Partition, 0))
	got, odd := map[int]bool{}, false
	var ours []*corev1.Pod
	stuck := w.stuckClaims(set)
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		o := ordinalOf(pod.Name)
		rank := slices.Index(wanted, o)
		if !w.isOurs(pod) {
			got[o], odd = rank >= 0, odd || rank >= 0
			continue
		}
		got[o], ours = true, append(ours, pod)
		waits := stuck[o] || !w.parallel && len(stuck) > 0
		if !podstate.IsActive(pod) || !serves(pod) || rank >= partition && !waits && appOf(pod.Spec) != appOf(set.Spec.Template.Spec) {
			w.Failf("converged", "Pod %s of rank %d: ready %t, state %q, %s, want %s; partition %d",
				pod.Name, rank, podstate.IsReady(pod), pod.Labels[apps.LabelLifecycleState], appOf(pod.Spec), appOf(set.Spec.Template.Spec), partition)
		}
		if pod.Labels[apps.LabelPodName] != pod.Name || pod.Labels[apps.LabelPodIndex] != fmt.Sprint(o) {
			w.Failf("identity", "Pod %s has labels %v", pod.Name, pod.Labels)
		}
		w.convergedClaim(set, pod, rank >= partition && !waits)
	}
	w.agents.Converged(set, set.Status.Conditions, ours, partition == 0 && !odd && len(stuck) == 0)
	maps.DeleteFunc(got, func(_ int, there bool) bool { return !there })
	if list := slices.Sorted(maps.Keys(got)); !slices.Equal(list, wanted) {
		w.Failf("converged", "Pods %v, want %v", list, wanted)
	}
	oddSpec := func(c v1beta1.Condition) bool { return c.Type == apps.ConditionOddSpec }
	if has := slices.ContainsFunc(set.Status.Conditions, oddSpec); has != w.hasUselessLimit(set) {
		w.Failf("converged", "conditions %+v, a limit is useless: %t", set.Status.Conditions, !has)
	}
	expected := func(c v1beta1.Condition) bool { return oddSpec(c) || c.Type == apps.ConditionContainersRestarted }
	if failed := slices.DeleteFunc(slices.Clone(set.Status.Conditions), expected); len(failed) > 0 != (len(stuck) > 0) && !odd {
		w.Failf("converged", "conditions %+v, claims of %v cannot grow", failed, slices.Sorted(maps.Keys(stuck)))
	}
	if s := set.Status; !odd && (int(s.Replicas) != len(wanted) || int(s.AvailableReplicas) != len(wanted) || s.ObservedGeneration != set.Generation) {
		w.Failf("converged", "status %+v", s)
	}
	if s := set.Status; !odd && partition == 0 && len(stuck) == 0 && s.CurrentRevision != s.UpdateRevision {
		w.Failf("converged", "the current revision is %s, that of the template %s", s.CurrentRevision, s.UpdateRevision)
	}
	if n := len(faultapi.All[*appsv1.ControllerRevision](w.Server)); n == 0 || n > len(got)+2+int(*set.Spec.RevisionHistoryLimit) {
		w.Failf("converged", "%d revisions", n)
	}
}

// convergedClaim checks that the claim of a Pod exists and has the owners that the policy requires. If follows is
// true, the claim must have the size in the template.
func (w *story) convergedClaim(set *v1beta1.StatefulSet, pod *corev1.Pod, follows bool) {
	if !w.claims {
		return
	}
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.User.Get(context.Background(), claimOf(pod), claim))
	if claim.DeletionTimestamp != nil { // a user has deleted the claim, and the Pod still uses the claim
		return
	}
	if asks := gigabytesOf(claim.Spec.Resources.Requests); w.follow && follows && asks < sizeOf(set) {
		w.Failf("converged", "claim %s asks for %d Gi, the template for %d", claim.Name, asks, sizeOf(set))
	}
	owned := slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == set.UID })
	want := set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	if owned != want || len(claim.OwnerReferences) > 1 {
		w.Failf("converged", "claim %s has owners %+v, policy %+v", claim.Name, claim.OwnerReferences, set.Spec.PersistentVolumeClaimRetentionPolicy)
	}
}

func claimOf(pod *corev1.Pod) client.ObjectKey {
	return client.ObjectKey{Namespace: pod.Namespace, Name: "data-" + pod.Name}
}
