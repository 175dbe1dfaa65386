package resourcedistribution_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight contains the possible inputs of a reconciliation: the caches before each call, up to the first write.
type sight struct {
	moments []moment
	wrote   bool
}

type moment struct {
	owner      *v1beta1.ResourceDistribution
	namespaces map[string]*corev1.Namespace
}

func (w *story) look(task *chaos.Task, _ *faultapi.Call) {
	s, ok := task.View.(*sight)
	if !ok {
		s = &sight{}
		task.View = s
	}
	owner := &v1beta1.ResourceDistribution{}
	if s.wrote || task.Process.Cache.Get(context.Background(), task.Object, owner) != nil {
		return
	}
	m := moment{owner, map[string]*corev1.Namespace{}}
	for _, name := range spaces() {
		namespace := &corev1.Namespace{}
		if task.Process.Cache.Get(context.Background(), client.ObjectKey{Name: name}, namespace) == nil {
			m.namespaces[name] = namespace
		}
	}
	s.moments = append(s.moments, m)
}

// has reports whether a list names a namespace.
func has(list v1beta1.ResourceDistributionTargetNamespaces, name string) bool {
	return slices.ContainsFunc(list.List, func(n v1beta1.ResourceDistributionNamespace) bool { return n.Name == name })
}

// wants reports whether a namespace must have a copy, and whether a listed namespace is missing.
func wants(owner *v1beta1.ResourceDistribution, name string, namespace *corev1.Namespace) (copied, missing bool) {
	t, gone := &owner.Spec.Targets, namespace == nil || namespace.DeletionTimestamp != nil
	listed := has(t.IncludedNamespaces, name)
	switch {
	case name == "kube-system" || has(t.ExcludedNamespaces, name):
		return false, false
	case gone:
		return false, listed
	}
	team, selected := t.NamespaceSelector.MatchLabels["team"]
	return listed || t.AllNamespaces || selected && namespace.Labels["team"] == team, false
}

// wanted returns the content and the labels that copies should have.
func (w *story) wanted(owner *v1beta1.ResourceDistribution) (kind, name string, data, labels map[string]string) {
	var r struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Data       map[string]string `json:"data"`
		StringData map[string]string `json:"stringData"`
	}
	w.must(json.Unmarshal(owner.Spec.Resource.Raw, &r))
	if r.Data == nil {
		r.Data = r.StringData
	}
	return r.Kind, r.Metadata.Name, r.Data, r.Metadata.Labels
}

func dataOf(object client.Object) map[string]string {
	out := map[string]string{}
	switch o := object.(type) {
	case *corev1.ConfigMap:
		maps.Copy(out, o.Data)
	case *corev1.Secret:
		for key, value := range o.Data {
			out[key] = string(value)
		}
	}
	return out
}

// isOf reports whether the ResourceDistribution with this name controls an object.
func isOf(object client.Object, name string) bool {
	ref := metav1.GetControllerOf(object)
	return ref != nil && ref.Kind == "ResourceDistribution" && ref.Name == name
}

// judge checks a write of the controller.
func (w *story) judge(write *chaos.Write) {
	s, ok := write.Task.View.(*sight)
	if !ok || len(s.moments) == 0 {
		w.Failf("view", "%s on nothing", write.Call)
		return
	}
	if write.Call.Resource.Resource == "events" {
		return
	}
	s.wrote = true
	if write.Call.Resource.Resource == "resourcedistributions" {
		w.judgeStatus(write)
		return
	}
	name := write.Task.Object.Name
	if write.Before != nil && !isOf(write.Before, name) {
		w.Failf("foreign", "%s by %s, which does not own it", write.Call, name)
	}
	why := ""
	for _, m := range s.moments {
		if why = w.wrong(write, m); why == "" {
			return
		}
	}
	w.Failf("write", "%s by %s: %s", write.Call, name, why)
}

// wrong returns the reason why a write contradicts the spec at a moment, or "" if the write is right.
func (w *story) wrong(write *chaos.Write, m moment) string {
	namespace := write.Call.Namespace
	wanted, _ := wants(m.owner, namespace, m.namespaces[namespace])
	if write.After == nil {
		if wanted {
			return "a copy that is wanted is deleted"
		}
		return ""
	}
	_, _, data, labels := w.wanted(m.owner)
	switch {
	case !wanted:
		return "the namespace is not chosen"
	case !isOf(write.After, m.owner.Name) || metav1.GetControllerOf(write.After).UID != m.owner.UID:
		return "the copy is not the distributor's own"
	case !maps.Equal(data, dataOf(write.After)):
		return fmt.Sprintf("content %v, want %v", dataOf(write.After), data)
	case write.After.GetLabels()["of"] != labels["of"]:
		return "the label of the template is another one"
	case write.Before == nil:
		return ""
	case immutable(write.Before) && !maps.Equal(dataOf(write.Before), dataOf(write.After)):
		return "what is immutable is changed"
	case write.Before.GetLabels()["theirs"] != write.After.GetLabels()["theirs"]:
		return "somebody else's label is changed"
	case cmp.Equal(write.Before, write.After, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields")):
		return "nothing has changed"
	}
	return ""
}

// judgeStatus checks that the numbers add up, and the conditions are in their fixed order.
func (w *story) judgeStatus(write *chaos.Write) {
	after, ok := write.After.(*v1beta1.ResourceDistribution)
	if !ok {
		w.Failf("status", "%s", write.Call)
		return
	}
	var order []string
	for _, condition := range after.Status.Conditions {
		order = append(order, string(condition.Type))
		if !slices.IsSorted(condition.FailedNamespaces) || (len(condition.FailedNamespaces) > 0) != (condition.Status == "True") {
			w.Failf("status", "%+v", condition)
		}
	}
	if diff := cmp.Diff([]string{
		"GetResourceFailed", "CreateResourceFailed", "UpdateResourceFailed", "DeleteResourceFailed", "ConflictOccurred", "NamespaceNotExists",
	}, order); diff != "" || after.Status.Failed != after.Status.Desired-after.Status.Succeeded {
		w.Failf("status", "%+v %s", after.Status, diff)
	}
}

// converged checks that each ResourceDistribution has copies exactly in the wanted namespaces, and reports everything
// that prevents a copy.
func (w *story) converged() {
	uids := map[types.UID]bool{}
	for _, owner := range faultapi.All[*v1beta1.ResourceDistribution](w.Server) {
		uids[owner.UID] = true
		w.convergedOne(owner)
	}
	for _, object := range w.objects() {
		if ref := metav1.GetControllerOf(object); ref != nil && !uids[ref.UID] {
			w.Failf("converged", "%s/%s is of a distributor that is gone", object.GetNamespace(), object.GetName())
		}
	}
}

func (w *story) convergedOne(owner *v1beta1.ResourceDistribution) {
	kind, name, data, labels := w.wanted(owner)
	var desired, succeeded int32
	failing := map[string][]string{}
	for _, space := range spaces() {
		var like client.Object = &corev1.ConfigMap{}
		if kind == "Secret" {
			like = &corev1.Secret{}
		}
		found := w.Server.Stored(like, client.ObjectKey{Namespace: space, Name: name})
		copied, missing := wants(owner, space, w.namespace(space))
		if copied || missing {
			desired++
		}
		switch {
		case missing:
			failing["NamespaceNotExists"] = append(failing["NamespaceNotExists"], space)
		case !copied && found != nil && isOf(found, owner.Name) && space != "kube-system":
			w.Failf("converged", "%s has a copy of %s", space, owner.Name)
		case !copied:
		case found == nil:
			w.Failf("converged", "%s lacks the copy of %s", space, owner.Name)
		case !isOf(found, owner.Name):
			failing["ConflictOccurred"] = append(failing["ConflictOccurred"], space)
		case immutable(found):
			failing["UpdateResourceFailed"] = append(failing["UpdateResourceFailed"], space)
		case !maps.Equal(data, dataOf(found)) || found.GetLabels()["of"] != labels["of"]:
			w.Failf("converged", "%s has %v with labels %v, %s wants %v", space, dataOf(found), found.GetLabels(), owner.Name, data)
		default:
			succeeded++
		}
	}
	got := map[string][]string{}
	for _, condition := range owner.Status.Conditions {
		if condition.Status == "True" {
			got[string(condition.Type)] = condition.FailedNamespaces
		}
	}
	if s := &owner.Status; !cmp.Equal(failing, got) || s.Desired != desired || s.Succeeded != succeeded || s.ObservedGeneration != owner.Generation {
		w.Failf("converged", "%s: %d desired, %d succeeded, failing %v; status %+v", owner.Name, desired, succeeded, failing, owner.Status)
	}
}
