package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

var decidedAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*v1beta1.StatefulSet)

// db returns a StatefulSet with parallel Pod management.
func db(replicas int32, edits ...edit) *v1beta1.StatefulSet {
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "uid-db", Generation: 7}}
	set.Spec = v1beta1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, ServiceName: "dbs",
		PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &v1beta1.RollingUpdateStatefulSet{},
		},
	}
	set.Spec.Template.Labels = map[string]string{"app": "db"}
	for _, edit := range edits {
		edit(set)
	}
	return set
}

func inOrder(set *v1beta1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
}

func rolling(f func(*v1beta1.RollingUpdateStatefulSet)) edit {
	return func(set *v1beta1.StatefulSet) { f(set.Spec.UpdateStrategy.RollingUpdate) }
}

func keep(n int32) edit {
	return rolling(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.Partition = &n })
}

func budget(limit string) edit {
	return rolling(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.MaxUnavailable = ptr.To(intstr.Parse(limit)) })
}

func reserve(entries ...string) edit {
	return func(set *v1beta1.StatefulSet) {
		for _, entry := range entries {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.Parse(entry))
		}
	}
}

func from(ordinal int32) edit {
	return func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: ordinal} }
}

func scaleBy(limit string) edit {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.Parse(limit))}
	}
}

func onDelete(set *v1beta1.StatefulSet) {
	set.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

// claims gives each Pod a claim with a size, in the class fast.
func claims(size string) edit {
	return func(set *v1beta1.StatefulSet) {
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		claim.Spec.StorageClassName = ptr.To("fast")
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, claim)
	}
}

// follow is like claims, but the controller enlarges existing claims when the size in the template is raised.
func follow(size string) edit {
	return func(set *v1beta1.StatefulSet) {
		claims(size)(set)
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnPodRollingUpdate
	}
}

func goWith(deleted, scaled bool) edit {
	word := map[bool]appsv1.PersistentVolumeClaimRetentionPolicyType{
		false: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, true: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	return func(set *v1beta1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: word[deleted], WhenScaled: word[scaled]}
	}
}

// entries calls f for each ordinal in a list such as "0-2 old, 3 new down", with the words that describe the ordinal.
func entries(t testing.TB, list string, f func(ordinal int, words []string)) {
	t.Helper()
	for entry := range strings.SplitSeq(list, ", ") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		numbers, err := ordinals.ParseSet("list", []intstr.IntOrString{intstr.Parse(words[0])})
		if err != nil {
			t.Fatal(err)
		}
		for ordinal := range numbers.All() {
			f(ordinal, words[1:])
		}
	}
}

// member returns a Pod that has been ready for an hour. The Pod is at revision db-2, unless the words contain old.
func member(t testing.TB, set *v1beta1.StatefulSet, ordinal int, words []string) *corev1.Pod {
	t.Helper()
	name := ordinals.Name("db", ordinal)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(decidedAt.Add(-time.Hour)),
			Labels: map[string]string{
				"app": "db", apps.LabelRevision: "db-2", apps.LabelPodName: name, apps.LabelPodIndex: fmt.Sprint(ordinal), apps.LabelLifecycleState: "Normal",
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1beta1.GroupVersion.WithKind("StatefulSet"))},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(decidedAt.Add(-time.Hour))},
		}},
	}
	pvc.Mount(pod, set.Spec.VolumeClaimTemplates)
	for _, word := range words {
		change, ok := map[string]func(){
			"old": func() { pod.Labels[apps.LabelRevision] = "db-1" },
			"new": func() {},
			"down": func() {
				pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "a probe"}
			},
			"fresh":       func() { pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(decidedAt.Add(-time.Second)) },
			"pending":     func() { pod.Status.Phase, pod.Status.Conditions, pod.Spec.NodeName = corev1.PodPending, nil, "" },
			"failed":      func() { pod.Status.Phase = corev1.PodFailed },
			"succeeded":   func() { pod.Status.Phase = corev1.PodSucceeded },
			"terminating": func() { pod.DeletionTimestamp = ptr.To(metav1.NewTime(decidedAt)) },
			"specified":   func() { pod.Labels[apps.LabelSpecifiedDelete] = "true" },
			"updating":    func() { pod.Labels[apps.LabelLifecycleState] = "Updating" },
			"asked":       func() { pod.Labels[apps.LabelLifecycleState] = "PreparingUpdate" },
			"held":        func() { pod.Labels[apps.LabelLifecycleState] = "PreparingDelete" },
			"closed": func() {
				gate := corev1.PodReadinessGate{ConditionType: apps.ConditionInPlaceUpdateReady}
				pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, gate)
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: gate.ConditionType, Status: corev1.ConditionFalse})
			},
			"taken":    func() { pod.Labels["app"] = "other" },
			"orphan":   func() { pod.OwnerReferences = nil },
			"foreign":  func() { pod.OwnerReferences[0].UID = "uid-other" },
			"bare":     func() { pod.Spec.Volumes = nil },
			"mistaken": func() { pod.Labels[apps.LabelPodIndex] = "99" },
			"first":    func() { pod.Labels["first"] = "1" },
		}[word]
		if !ok {
			t.Fatalf("%q is no word for a Pod", word)
		}
		change()
	}
	return pod
}

// volume returns the claim of an ordinal, in the class fast. The word "1Gi" gives a claim with the requested size,
// and "2Gi/1Gi" a claim that is growing from 1Gi to 2Gi.
func volume(t testing.TB, ordinal int, words []string) *corev1.PersistentVolumeClaim {
	t.Helper()
	pod := ordinals.Name("db", ordinal)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-" + pod, UID: types.UID("uid-data-" + pod)}}
	asks, has, grows := strings.Cut(words[0], "/")
	if !grows {
		has = asks
	}
	claim.Spec.StorageClassName = ptr.To("fast")
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asks)}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	owned := func(kind, apiVersion, name string, uid types.UID) func() {
		return func() {
			claim.OwnerReferences = append(claim.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid})
		}
	}
	for _, word := range words[1:] {
		change, ok := map[string]func(){
			"slow":  func() { claim.Spec.StorageClassName = ptr.To("slow") },
			"many":  func() { claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany} },
			"dying": func() { claim.DeletionTimestamp = ptr.To(metav1.NewTime(decidedAt)) },
			"restart": func() {
				claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
			},
			"ofset":   owned("StatefulSet", "apps.kruise.io/v1beta1", "db", "uid-db"),
			"ofpod":   owned("Pod", "v1", pod, types.UID("uid-"+pod)),
			"earlier": owned("Pod", "v1", pod, "uid-earlier"),
			"foreign": owned("Team", "v1", "a", "uid-team"),
			"another": func() {
				ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Team", Name: "a", UID: "uid-team", Controller: ptr.To(true)}
				claim.OwnerReferences = append(claim.OwnerReferences, ref)
			},
		}[word]
		if !ok {
			t.Fatalf("%q is no word for a claim", word)
		}
		change()
	}
	return claim
}

// situation is a StatefulSet with its objects.
type situation struct {
	set    *v1beta1.StatefulSet
	gates  map[apps.Gate]bool
	pods   string
	claims string
}

// observe reads a situation as the controller does.
func observe(t testing.TB, in situation) *observation {
	t.Helper()
	gates := apps.DefaultGates()
	gates[apps.GateStatefulSetStartOrdinal], gates[apps.GateStatefulSetAutoResizePVC] = true, true
	maps.Copy(gates, in.gates)
	s, problems, _ := resolve(in.set, gates)
	if len(problems) > 0 {
		t.Fatal(problems.Reasons())
	}
	updater, err := kruise.InPlace(gates, apps.ReservedStatefulSetLabels())
	if err != nil {
		t.Fatal(err)
	}
	config, err := kruise.PodControl(updater, podcontrol.Config{FullRevisions: true, CountUnscheduled: true, GateWhereUpdated: true, DeleteLabel: apps.LabelSpecifiedDelete})
	if err != nil {
		t.Fatal(err)
	}
	control, err := podcontrol.New(config)
	if err != nil {
		t.Fatal(err)
	}
	o := &observation{
		set: in.set, settings: s, claims: s.claims,
		current: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "db-1"}}, update: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "db-2"}},
	}
	histories, err := revision.NewHistories(kruise.RevisionKeys(apps.LabelRevisionHash), revision.NewDecoder(2, nil))
	if err == nil {
		o.current.Data.Raw, err = revision.Encode(&in.set.Spec.Template) // of the present claim templates
	}
	if err != nil {
		t.Fatal(err)
	}
	kind := v1beta1.GroupVersion.WithKind("StatefulSet")
	o.history = histories.Of(revision.OwnerOf(in.set, kind), nil, []*appsv1.ControllerRevision{o.current, o.update})
	o.history.Update = o.update
	var owned []*corev1.Pod
	entries(t, in.pods, func(ordinal int, words []string) {
		switch pod := member(t, in.set, ordinal, words); {
		case metav1.IsControlledBy(pod, in.set):
			owned = append(owned, pod)
		case len(pod.OwnerReferences) == 0:
			o.orphans = append(o.orphans, pod)
		}
	})
	stored, rests := map[string]*corev1.PersistentVolumeClaim{}, map[types.UID]time.Duration{}
	entries(t, in.claims, func(ordinal int, words []string) {
		rest := map[string]time.Duration{"refused": time.Second, "resting": time.Minute}
		claim := volume(t, ordinal, slices.DeleteFunc(slices.Clone(words), func(word string) bool { return rest[word] > 0 }))
		stored[claim.Name] = claim
		for _, word := range words {
			rests[claim.UID] = max(rests[claim.UID], rest[word])
		}
	})
	o.claims.Rest = func(claim *corev1.PersistentVolumeClaim) time.Duration { return rests[claim.UID] }
	o.claims.Claim = func(name string) (*corev1.PersistentVolumeClaim, bool) {
		claim, ok := stored[name]
		return claim, ok
	}
	o.claims.Owner = metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: in.set.Name, UID: in.set.UID}
	o.pods = podcontrol.NewReader(control).Read(in.set.UID, owned, podcontrol.Want{Update: "db-2", MinReady: s.minReady, Selector: s.selector}, decidedAt)
	o.members = o.pods.Numbered("db", podcontrol.NumberedOptions{}, decidedAt)
	if s.rollout.Unordered {
		o.members.Sort(podorder.Update{Priority: s.priority})
	}
	return o
}

// told returns the todo as a text.
func (todo *todo) told() string {
	var parts []string
	add := func(verb string, list []string) {
		if len(list) > 0 {
			parts = append(parts, verb+" "+strings.Join(list, ", "))
		}
	}
	names := func(pods []*corev1.Pod) (out []string) {
		for _, pod := range pods {
			out = append(out, pod.Name)
		}
		return out
	}
	reasons := func(list reason.List) (out []string) {
		for _, why := range list {
			out = append(out, strings.TrimSpace(why.Object.Name+" "+why.Path))
		}
		return out
	}
	var own, missing, created, grow []string
	for _, claim := range todo.own {
		var kinds []string
		for _, ref := range claim.Owners {
			kinds = append(kinds, ref.Kind)
		}
		own = append(own, claim.Name+"="+strings.Join(kinds, "+"))
	}
	for _, claim := range todo.missing {
		missing = append(missing, claim.Name)
	}
	for _, c := range todo.create {
		created = append(created, ordinals.Name("db", c.Ordinal)+map[bool]string{true: " old"}[c.Old])
	}
	for _, claim := range todo.grow {
		grow = append(grow, claim.Name+" to "+claim.Template.Spec.Resources.Requests.Storage().String())
	}
	add("release", names(todo.release))
	add("adopt", names(todo.adopt))
	add("own", own)
	add("claim", missing)
	add("label", names(todo.relabel))
	add("create", created)
	add("blocked", reasons(todo.blocked))
	add("delete", names(todo.remove))
	add("cancel", names(todo.cancel))
	add("grow", grow)
	add("update", names(todo.update))
	add("stuck", reasons(todo.stuck))
	return strings.Join(parts, "; ")
}

func TestDecide(t *testing.T) {
	for name, tc := range decisions() {
		t.Run(name, func(t *testing.T) {
			todo, err := decide(observe(t, tc.situation))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, todo.told()); diff != "" {
				t.Errorf("(-want +got):\n%s\nlimits: %v", diff, todo.step.Limits)
			}
		})
	}
}

type decision struct {
	situation

	want string
}

func decisions() map[string]decision {
	paused := rolling(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.Paused = true })
	firstOf := func(key string) edit {
		return rolling(func(ru *v1beta1.RollingUpdateStatefulSet) {
			ru.UnorderedUpdate = &v1beta1.UnorderedUpdate{PriorityStrategy: &pub.PriorityStrategy{OrderPriority: []pub.OrderPriorityTerm{{OrderedKey: key}}}}
		})
	}
	minReady := rolling(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.MinReadySeconds = ptr.To[int32](30) })
	off := func(gate apps.Gate) map[apps.Gate]bool { return map[apps.Gate]bool{gate: false} }
	return map[string]decision{
		// The next cases are about the labels that identify a Pod.
		"S-1 a label that names another": {situation{set: db(2), pods: "0 new, 1 new mistaken"}, "label db-1"},
		"S-1 without the gate of the index it is nobody's business": {
			situation{set: db(2), pods: "0 new, 1 new mistaken", gates: off(apps.GatePodIndexLabel)}, "",
		},
		"S-1 an orphan that is selected is adopted, whatever its number":          {situation{set: db(1), pods: "0 new, 7 old orphan"}, "adopt db-7"},
		"S-1 an orphan that is not selected is left alone":                        {situation{set: db(1), pods: "0 new, 1 old orphan taken"}, ""},
		"S-1 a Pod that is not selected any more is released, and holds its name": {situation{set: db(2), pods: "0 new, 1 new taken"}, "release db-1"},
		"S-2 D-7 a start": {situation{set: db(3, from(3))}, "create db-3, db-4, db-5"},
		"S-2 D-7 a start without its gate": {
			situation{set: db(3, from(3)), gates: off(apps.GateStatefulSetStartOrdinal)}, "create db-0, db-1, db-2",
		},
		"S-3 B-6 reserving a live ordinal moves its Pod": {situation{set: db(4, reserve("1", "3")), pods: "0 new, 2-4 new"}, "create db-5; delete db-3"},
		"S-3 B-7 and fewer replicas delete it":           {situation{set: db(3, reserve("1", "3")), pods: "0 new, 2-4 new"}, "delete db-3"},
		"S-4 from the highest":                           {situation{set: db(2, reserve("0")), pods: "0-4 new"}, "delete db-4, db-3, db-0"},
		"S-5 the start moves, all at once":               {situation{set: db(2, from(2)), pods: "0-1 new"}, "create db-2, db-3; delete db-1, db-0"},
		"S-5 in order the new ones come first":           {situation{set: db(2, from(2), inOrder), pods: "0-1 new"}, "create db-2"},

		// The next cases are about scaling.
		"S-7 in order, one at a time":                                 {situation{set: db(3, inOrder), pods: "0 new"}, "create db-1"},
		"S-7 it waits for minReadySeconds":                            {situation{set: db(3, inOrder, minReady), pods: "0 new fresh"}, ""},
		"S-7 and for lifecycle states":                                {situation{set: db(3, inOrder), pods: "0 new updating"}, ""},
		"S-7 and for what is terminating":                             {situation{set: db(3, inOrder), pods: "0 new, 1 new terminating"}, ""},
		"S-7 scaling in waits for those that stay":                    {situation{set: db(2, inOrder, minReady), pods: "0 new, 1 new fresh, 2 new"}, ""},
		"S-7 the first that is broken and not wanted goes":            {situation{set: db(2, inOrder), pods: "0-2 new, 3 new down"}, "delete db-3"},
		"S-7 scaling in halts while Pods that are to go are broken":   {situation{set: db(0, inOrder), pods: "0-2 new down"}, ""},
		"S-36 minReadySeconds of a Pod that is to go hold nothing up": {situation{set: db(2, inOrder, minReady), pods: "0-1 new, 2 new fresh"}, "delete db-2"},
		"S-8 all at once":                                             {situation{set: db(4), pods: "6-8 new"}, "create db-0, db-1, db-2, db-3; delete db-8, db-7, db-6"},
		"S-9 as many as may be unavailable":                           {situation{set: db(5, scaleBy("2"))}, "create db-0, db-1"},
		"S-9 a percentage, rounded down and one at least":             {situation{set: db(5, scaleBy("10%"))}, "create db-0"},
		"S-9 a Pod that is terminating and unavailable counts once": {
			situation{set: db(5, scaleBy("2")), pods: "0 new down terminating"}, "create db-1",
		},
		"S-9 scaling in keeps to the budget of updates then": {situation{set: db(2, from(2), scaleBy("2")), pods: "0-1 new"}, "create db-2, db-3; delete db-1"},
		"S-9 it is not asked in order":                       {situation{set: db(5, inOrder, scaleBy("2")), pods: "0 new"}, "create db-1"},
		"S-10 failed and succeeded Pods are deleted first":   {situation{set: db(3), pods: "0 new failed, 1 new succeeded, 2 new"}, "delete db-1, db-0"},
		"S-10 in order, the lowest":                          {situation{set: db(3, inOrder), pods: "0 new failed, 1 new succeeded, 2 new"}, "delete db-0"},
		"S-11 in order, scaling comes before updates":        {situation{set: db(2, inOrder), pods: "0-2 old"}, "delete db-2"},
		"S-11 in parallel both":                              {situation{set: db(2), pods: "0-2 old"}, "delete db-2; update db-1"},
		"S-12 a pending Pod gets the claims that it lacks":   {situation{set: db(2, claims("1Gi")), pods: "0 new, 1 new pending"}, "claim data-db-1"},
		"S-12 one that runs does not":                        {situation{set: db(1, claims("1Gi")), pods: "0 new"}, ""},
		"S-12 nor one that is not wanted":                    {situation{set: db(0, claims("1Gi")), pods: "0 new pending"}, "delete db-0"},
		"S-12 a claim on its way out keeps its Pod, and no other": {
			situation{set: db(3, claims("1Gi")), claims: "1 1Gi dying"}, "create db-0, db-2; blocked data-db-1",
		},
		"S-13 by rank, counted without what is reserved": {situation{set: db(4, reserve("1"), keep(2))}, "create db-0 old, db-2 old, db-3, db-4"},
		"S-13 unordered: others are old enough":          {situation{set: db(4, keep(2), firstOf("first")), pods: "2-3 old"}, "create db-0, db-1"},
		"S-13 unordered: one is lacking":                 {situation{set: db(4, keep(2), firstOf("first")), pods: "3 old"}, "create db-0 old, db-1, db-2"},
		"S-13 OnDelete":                                  {situation{set: db(2, onDelete)}, "create db-0, db-1"},
		"S-14 the example": {
			situation{set: db(5, budget("3")), pods: "0 new, 1-2 new down specified, 3-4 new specified"}, "delete db-4, db-2, db-1",
		},
		"S-14 whatever the partition": {situation{set: db(3, keep(3)), pods: "0-1 old, 2 old specified"}, "delete db-2"},
		"S-14 not while paused":       {situation{set: db(3, paused), pods: "0-1 new, 2 new specified"}, ""},
		"S-14 not with OnDelete":      {situation{set: db(3, onDelete), pods: "0-1 new, 2 new specified"}, ""},

		// The next cases are about updates.
		"S-15 the partition counts from the lowest that is not reserved": {
			situation{set: db(5, reserve("1", "3"), keep(2), budget("9")), pods: "0 old, 2 old, 4-6 old"}, "update db-6, db-5, db-4",
		},
		"S-15 as large as replicas": {situation{set: db(3, keep(3)), pods: "0-2 old"}, ""},
		"S-16 O-2 unordered: by priority, those without the key first, and from the highest": {
			situation{set: db(4, keep(1), budget("9"), firstOf("first")), pods: "0 old first, 1 old, 2 old first, 3 old"}, "update db-3, db-1, db-2",
		},
		"S-16 unordered: updated ones are counted first": {
			situation{set: db(10, keep(6), budget("9"), firstOf("first")), pods: "0-5 old, 6-7 new, 8-9 old"}, "update db-9, db-8",
		},
		"S-17 not ready": {situation{set: db(3), pods: "0 new down, 1-2 old"}, ""},
		"S-17 an update in place that has not ended": {situation{set: db(3), pods: "0-1 old, 2 new closed"}, ""},
		"S-17 a lifecycle state":                     {situation{set: db(3), pods: "0-1 old, 2 new updating"}, ""},
		"S-17 not ready for minReadySeconds":         {situation{set: db(3, minReady), pods: "0-1 old, 2 new fresh"}, ""},
		"S-17 terminating":                           {situation{set: db(3), pods: "0 new terminating, 1-2 old"}, ""},
		"S-18 a budget in percent, rounded down":     {situation{set: db(5, budget("50%")), pods: "0-4 old"}, "update db-4, db-3"},
		"S-18 and one at least":                      {situation{set: db(5, budget("10%")), pods: "0-4 old"}, "update db-4"},
		"S-18 broken old Pods at any time":           {situation{set: db(5), pods: "0-1 old, 2-4 old down"}, "update db-4, db-3, db-2"},
		"S-21 paused":                                {situation{set: db(2, paused), pods: "0-1 old, 2 old"}, "delete db-2"},
		"S-38 a Pod that is stuck stops no other":    {situation{set: db(4, budget("2")), pods: "0-1 old, 2 new terminating, 5 new terminating, 6 new"}, "create db-3; delete db-6"},
		"S-40 no rollingUpdate: partition 0, one at a time, new Pods are new": {
			situation{set: db(3, rollingUpdateUnset), pods: "1-2 old"}, "create db-0",
		},
		"S-40 no rollingUpdate: the highest is updated": {situation{set: db(3, rollingUpdateUnset), pods: "0-2 old"}, "update db-2"},

		// The next cases are about the owners of claims.
		"S-25 kept":                     {situation{set: db(1, claims("1Gi"), goWith(false, false)), pods: "0-1 new", claims: "0-1 1Gi"}, "delete db-1"},
		"S-25 with the StatefulSet":     {situation{set: db(1, claims("1Gi"), goWith(true, false)), pods: "0 new, 3 new", claims: "0 1Gi, 3 1Gi"}, "own data-db-0=StatefulSet, data-db-3=StatefulSet"},
		"S-25 with the Pod":             {situation{set: db(1, claims("1Gi"), goWith(false, true)), pods: "0 new, 3 new", claims: "0 1Gi, 3 1Gi"}, "own data-db-3=Pod"},
		"S-25 with both":                {situation{set: db(1, claims("1Gi"), goWith(true, true)), pods: "0 new, 3 new", claims: "0 1Gi ofset, 3 1Gi ofset"}, "own data-db-3=Pod"},
		"S-25 without the gate":         {situation{set: db(1, claims("1Gi"), goWith(true, true)), pods: "0 new, 3 new", claims: "0 1Gi, 3 1Gi ofset", gates: off(apps.GateStatefulSetAutoDeletePVC)}, "delete db-3"},
		"S-25 the policy is taken back": {situation{set: db(1, claims("1Gi")), pods: "0 new", claims: "0 1Gi ofset foreign"}, "own data-db-0=Team"},
		"S-26 a claim that goes with an earlier Pod": {
			situation{set: db(2, claims("1Gi"), goWith(false, true)), claims: "1 1Gi earlier"}, "create db-0; blocked data-db-1",
		},
		"S-26 a claim that stays with the StatefulSet does not": {situation{set: db(1, claims("1Gi"), goWith(true, true)), claims: "0 1Gi ofset"}, "create db-0"},
		"S-27 before its Pod goes, which is not wanted": {
			situation{set: db(1, claims("1Gi"), goWith(false, true)), pods: "0 new, 2-3 new", claims: "0 1Gi, 2 1Gi ofpod, 3 1Gi"}, "own data-db-3=Pod; delete db-2",
		},
		"S-27 a reserved ordinal is one that is not wanted": {
			situation{set: db(2, reserve("1"), claims("1Gi"), goWith(false, true)), pods: "0-2 new", claims: "0-2 1Gi"}, "own data-db-1=Pod",
		},
		"S-27 the Pod is wanted again": {situation{set: db(2, claims("1Gi"), goWith(false, true)), pods: "0-1 new", claims: "0 1Gi, 1 1Gi ofpod"}, "own data-db-1="},
		"S-27 also of a Pod that has ended": {
			situation{set: db(1, claims("1Gi"), goWith(false, true)), pods: "0 new, 1 new failed", claims: "0-1 1Gi"}, "own data-db-1=Pod",
		},

		// The next cases are about growing claims.
		"S-28 the claim of the Pod whose turn it is, and no other": {situation{set: db(3, follow("2Gi")), pods: "0-2 old", claims: "0-2 1Gi"}, "grow data-db-2 to 2Gi"},
		"S-28 a Pod at the update revision, too":                   {situation{set: db(3, follow("2Gi")), pods: "0-2 new", claims: "0-1 1Gi, 2 2Gi"}, "grow data-db-1 to 2Gi"},
		"S-28 within the budget":                                   {situation{set: db(4, follow("2Gi"), budget("2")), pods: "0-3 new", claims: "0-3 1Gi"}, "grow data-db-3 to 2Gi, data-db-2 to 2Gi"},
		"S-28 not below the partition":                             {situation{set: db(3, follow("2Gi"), keep(2)), pods: "0-1 old, 2 new", claims: "0-1 1Gi, 2 2Gi"}, ""},
		"S-28 not while paused":                                    {situation{set: db(3, follow("2Gi"), paused), pods: "0-2 old", claims: "0-2 1Gi"}, ""},
		"S-28 not with OnDelete of Pods":                           {situation{set: db(3, follow("2Gi"), onDelete), pods: "0-2 old", claims: "0-2 1Gi"}, ""},
		"S-28 without the gate": {
			situation{set: db(1, follow("2Gi")), pods: "0 old", claims: "0 1Gi", gates: off(apps.GateStatefulSetAutoResizePVC)}, "update db-0",
		},
		"S-28 another class: the others first": {
			situation{set: db(3, follow("2Gi"), budget("2")), pods: "0-2 old", claims: "0-1 2Gi, 2 1Gi slow"}, "update db-1, db-0",
		},
		"S-28 another class, when it is its turn": {
			situation{set: db(2, follow("2Gi")), pods: "0 new, 1 old", claims: "0 2Gi, 1 1Gi slow"}, "stuck data-db-1 spec.storageClassName",
		},
		"S-28 other access modes": {
			situation{set: db(1, follow("2Gi")), pods: "0 old", claims: "0 1Gi many"}, "stuck data-db-0 spec.accessModes",
		},
		"a claim that somebody else controls does not grow": {
			situation{set: db(1, follow("2Gi")), pods: "0 old", claims: "0 1Gi another"}, "stuck data-db-0 metadata.ownerReferences",
		},
		"a claim that somebody else controls is large enough": {situation{set: db(1, follow("2Gi")), pods: "0 old", claims: "0 2Gi another"}, "update db-0"},
		"a claim that somebody else controls goes with nobody": {
			situation{set: db(1, claims("1Gi"), goWith(true, true)), pods: "0 new, 1 new", claims: "0-1 1Gi another"}, "delete db-1",
		},
		"a claim whose growth was refused lets others have their turn": {
			situation{set: db(3, follow("2Gi")), pods: "0-2 old", claims: "0-1 1Gi, 2 1Gi refused"}, "grow data-db-1 to 2Gi",
		},
		"of claims whose growth was refused, the one whose rest ends first is tried first": {
			situation{set: db(2, follow("2Gi")), pods: "0-1 new", claims: "0 1Gi refused, 1 1Gi resting"}, "grow data-db-0 to 2Gi",
		},
		"a claim whose growth was refused is tried again in the end": {
			situation{set: db(2, follow("2Gi")), pods: "0-1 new", claims: "0 2Gi, 1 1Gi refused"}, "grow data-db-1 to 2Gi",
		},
		"a Pod that waits for its hook is taken back where its claim cannot become what it has to": {
			situation{set: db(2, follow("2Gi")), pods: "0 new, 1 old held", claims: "0 2Gi, 1 1Gi slow"}, "cancel db-1; stuck data-db-1 spec.storageClassName",
		},
		"a Pod that waits for its hook serves while its claim grows": {
			situation{set: db(2, follow("2Gi")), pods: "0 new, 1 old asked", claims: "0 2Gi, 1 1Gi"}, "cancel db-1; grow data-db-1 to 2Gi",
		},
		"L-2 a Pod that waits for its hook goes on where its claim fits": {situation{set: db(2, follow("2Gi")), pods: "0 new, 1 old held", claims: "0-1 2Gi"}, "update db-1"},
		"L-6 a Pod that waits for its hook and is wanted as it is":       {situation{set: db(2), pods: "0 new, 1 new held"}, "cancel db-1"},
		"S-28 what differs and is large enough is fine":                  {situation{set: db(1, follow("2Gi")), pods: "0 old", claims: "0 2Gi slow"}, "update db-0"},
		"S-29 the Pod waits until the volume has grown":                  {situation{set: db(2, follow("2Gi")), pods: "0-1 old", claims: "0 1Gi, 1 2Gi/1Gi"}, ""},
		"S-29 or until nothing but its restart is missing": {
			situation{set: db(2, follow("2Gi")), pods: "0-1 old", claims: "0 1Gi, 1 2Gi/1Gi restart"}, "update db-1",
		},
		"S-29 what has begun is brought to its end, although it is not the highest": {
			situation{set: db(3, follow("2Gi")), pods: "0-2 old", claims: "0 1Gi, 1 2Gi/1Gi restart, 2 2Gi"}, "update db-1",
		},
		"S-29 meanwhile the next has its turn, within the budget": {
			situation{set: db(3, follow("2Gi"), budget("2")), pods: "0-2 old", claims: "0-1 1Gi, 2 2Gi/1Gi"}, "grow data-db-1 to 2Gi",
		},
		"S-30 a Pod whose volume grows is unavailable, at whatever revision": {situation{set: db(3, follow("2Gi")), pods: "0-1 old, 2 new", claims: "0-1 2Gi, 2 2Gi/1Gi"}, ""},
		"S-30 whoever has asked for that":                                    {situation{set: db(2, follow("2Gi")), pods: "0 new, 1 old", claims: "0 9Gi/2Gi, 1 2Gi"}, ""},
		"S-31 a claim that is larger than the template":                      {situation{set: db(1, follow("1Gi")), pods: "0 old", claims: "0 3Gi"}, "update db-0"},
		"S-31 claims that are missing or on their way out":                   {situation{set: db(2, follow("2Gi"), budget("2")), pods: "0-1 old", claims: "1 1Gi dying"}, "update db-1, db-0"},
		"S-32 claims that do not follow":                                     {situation{set: db(2, claims("2Gi"), budget("2")), pods: "0-1 old", claims: "0 1Gi, 1 2Gi/1Gi"}, "update db-1, db-0"},
		"S-39 a rollback with smaller claims":                                {situation{set: db(2, follow("1Gi"), budget("2")), pods: "0-1 old", claims: "0 1Gi, 1 2Gi"}, "update db-1, db-0"},
	}
}

func rollingUpdateUnset(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate = nil }
