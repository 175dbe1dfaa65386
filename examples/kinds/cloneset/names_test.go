package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/revision"
)

// TestNewNames checks the ids of new Pods. An id is in use as long as a Pod of this name exists, of any owner.
// Existing claims of a deleted Pod are used by a new Pod with the same id. While such a claim is being deleted, no
// Pod gets the id.
func TestNewNames(t *testing.T) {
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "cs"}}
	cs.Spec.VolumeClaimTemplates = claimTemplates("data", "logs")
	cs.Spec.ScaleStrategy.PodsToDelete = []string{"web-named"}
	now := metav1.Now()
	meta := func(name, id string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{apps.LabelInstanceID: id},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cs, v1beta1.GroupVersion.WithKind("CloneSet"))},
		}
	}
	pod := func(id string, change func(*corev1.Pod)) client.Object {
		p := &corev1.Pod{ObjectMeta: meta("web-"+id, id)}
		change(p)
		return p
	}
	running := func(*corev1.Pod) {}
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &now }
	evicted := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	released := func(p *corev1.Pod) { p.OwnerReferences = nil }
	// When the reconciliation read the Pods, the Pod was terminating; the cache no longer contains the Pod.
	gone := func(p *corev1.Pod) { p.DeletionTimestamp, p.Annotations = &now, map[string]string{"gone": ""} }
	claims := func(id string, dying int) (out []client.Object) {
		for i, name := range []string{"data", "logs"} {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta(name+"-web-"+id, id)}
			if i < dying {
				claim.DeletionTimestamp = &now
			}
			out = append(out, claim)
		}
		return out
	}
	taken := func(id string) []client.Object { // the claim with the last name was deleted together with its Pod
		out := claims(id, 0)
		out[1].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-" + id, UID: "gone"}})
		return out
	}
	edited := func(id, label string) []client.Object {
		out := claims(id, 0)[:1]
		out[0].SetLabels(map[string]string{apps.LabelInstanceID: label})
		return out
	}
	huge := make([]string, fanout.PerPass)
	for i := range huge {
		huge[i] = fmt.Sprint("new", i)
	}
	for _, tc := range []struct {
		name   string
		reuse  bool
		unborn []string // names of refused Pods, too
		have   []client.Object
		n      int
		want   []string
	}{
		{"C-7 far too many", false, nil, nil, math.MaxInt32, huge},
		{"a label that somebody has changed", true, nil, edited("a", "A_b"), 1, []string{"new0"}},
		{"C-7 new ones", false, nil, nil, 2, []string{"new0", "new1"}},
		{"C-36 claims that lost their Pod", true, nil, claims("a", 0), 2, []string{"a", "new0"}},
		{"C-36 without reuse", false, nil, claims("a", 0), 1, []string{"new0"}},
		{"claims that wait for a Pod that could not be created", false, []string{"a"}, claims("a", 0), 1, []string{"a"}},
		{"Pods that were refused", false, []string{"a", "b"}, nil, 3, []string{"a", "b", "new0"}},
		{"a Pod that was refused and has come, with any owner", false, []string{"a"}, []client.Object{pod("a", released)}, 1, []string{"new0"}},
		{"a Pod that was refused, and somebody else has a claim of the name", false, []string{"a"}, taken("a")[1:], 1, []string{"new0"}},
		{"a Pod that was refused, and one of the claims is on its way out", false, []string{"a"}, claims("a", 1), 1, []string{"new0"}},
		{"podsToDelete names the Pod that was refused", false, []string{"named"}, nil, 1, []string{"new0"}},
		{"one of the claims is on its way out", true, nil, claims("a", 1), 1, []string{"new0"}},
		{"one of the claims went with the Pod that was released", true, nil, taken("a"), 1, []string{"new0"}},
		{"the Pod is on its way out", true, nil, append(claims("a", 0), pod("a", leaving)), 2, []string{"new0"}},
		{"the Pod is on its way out, and another one is wanted", true, nil, slices.Concat(claims("a", 0), claims("b", 0), []client.Object{pod("a", leaving)}), 1, []string{"b"}},
		{"the Pod has gone since the pass began", true, nil, append(claims("a", 0), pod("a", gone)), 2, []string{"new0"}},
		{"the Pod is on its way out with its claims", true, nil, append(claims("a", 2), pod("a", leaving)), 1, []string{"new0"}},
		{"the Pod is on its way out, without reuse", false, nil, append(claims("a", 0), pod("a", leaving)), 1, []string{"new0"}},
		{"the Pod runs", true, nil, append(claims("a", 0), pod("a", running)), 1, []string{"new0"}},
		{"the Pod was evicted and keeps its name", true, nil, append(claims("a", 0), pod("a", evicted)), 1, []string{"new0"}},
		{"C-4 the Pod was released and keeps its name", true, nil, append(claims("a", 0), pod("a", released)), 1, []string{"new0"}},
		{"podsToDelete names the Pod, whose claim somebody uses", true, nil, claims("named", 0), 2, []string{"new0", "new1"}},
		{"podsToDelete names the Pod on its way out", true, nil, append(claims("named", 0), pod("named", leaving)), 1, []string{"new0"}},
		{"somebody else has a claim of the name of a new id", false, nil, taken("new0"), 1, []string{"new1"}},
		{"a released Pod has the name of a new id", false, nil, []client.Object{pod("new0", released)}, 1, []string{"new1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := 0
			var lost []*corev1.Pod
			have := slices.DeleteFunc(slices.Clone(tc.have), func(o client.Object) bool {
				_, isGone := o.GetAnnotations()["gone"]
				if isGone {
					lost = append(lost, o.(*corev1.Pod))
				}
				return isGone
			})
			owner := cs.DeepCopy()
			owner.Spec.ScaleStrategy.EnablePVCReuse = tc.reuse
			o := &observation{
				cs: owner, pods: &podcontrol.Set{Inactive: lost}, unborn: sets.New[string](), world: worldOf(have),
				history: &revision.History{}, current: &appsv1.ControllerRevision{},
			}
			o.world.newID = func() string {
				next++
				return fmt.Sprint("new", next-1)
			}
			for _, object := range have {
				switch object := object.(type) {
				case *corev1.PersistentVolumeClaim:
					if metav1.IsControlledBy(object, owner) {
						o.claims = append(o.claims, object)
					}
				case *corev1.Pod:
					switch {
					case !metav1.IsControlledBy(object, owner):
					case podstate.IsActive(object):
						o.pods.Active = append(o.pods.Active, podcontrol.Pod{Pod: object})
					default:
						o.pods.Inactive = append(o.pods.Inactive, object)
					}
				}
			}
			for _, id := range tc.unborn {
				o.unborn.Insert(podName(owner, id))
				o.refused = append(o.refused, podName(owner, id))
			}
			var ids []string
			names, _ := o.newNames(tc.n)
			for _, name := range names {
				ids = append(ids, strings.TrimPrefix(name, "web-"))
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

// worldOf returns a world with the given objects.
func worldOf(have []client.Object) world {
	return world{
		pod: func(name string) (*corev1.Pod, bool) {
			for _, object := range have {
				if pod, ok := object.(*corev1.Pod); ok && pod.Name == name {
					return pod, true
				}
			}
			return nil, false
		},
		claim: func(name string) (*corev1.PersistentVolumeClaim, bool) {
			for _, object := range have {
				if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && claim.Name == name {
					return claim, true
				}
			}
			return nil, false
		},
		users: func(claim *corev1.PersistentVolumeClaim) (out []*corev1.Pod) {
			for _, object := range have {
				if pod, ok := object.(*corev1.Pod); ok && slices.Contains(pvc.UsedBy(pod), claim.Name) {
					out = append(out, pod)
				}
			}
			return out
		},
	}
}
