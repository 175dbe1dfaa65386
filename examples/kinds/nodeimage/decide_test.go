package nodeimage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func node(edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func image(edits ...func(*v1beta1.NodeImage)) *v1beta1.NodeImage {
	obj := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

// tag adds a tag with the given owners. The tag is an hour old and has a TTL of ten minutes.
func tag(name string, owners ...string) func(*v1beta1.NodeImage) {
	return func(obj *v1beta1.NodeImage) {
		if obj.Spec.Images == nil {
			obj.Spec.Images = map[string]v1beta1.ImageSpec{}
		}
		in := obj.Spec.Images["nginx"]
		t := v1beta1.ImageTagSpec{Tag: name, CreatedAt: new(metav1.NewTime(noon.Add(-time.Hour)))}
		t.PullPolicy = &v1beta1.ImageTagPullPolicy{TTLSecondsAfterFinished: new(int32(600))}
		for _, owner := range owners {
			t.OwnerReferences = append(t.OwnerReferences, corev1.ObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "ImagePullJob", UID: types.UID(owner)})
		}
		in.Tags = append(in.Tags, t)
		obj.Spec.Images["nginx"] = in
	}
}

// recent makes all tags a minute old.
func recent(obj *v1beta1.NodeImage) {
	for _, in := range obj.Spec.Images {
		for i := range in.Tags {
			in.Tags[i].CreatedAt = new(metav1.NewTime(noon.Add(-time.Minute)))
		}
	}
}

// answered adds to a NodeImage the status of a pull that has ended.
func answered(name string, phase v1beta1.ImagePullPhase, ended time.Time) func(*v1beta1.NodeImage) {
	return func(obj *v1beta1.NodeImage) {
		in := obj.Status.ImageStatuses["nginx"]
		in.Tags = append(in.Tags, v1beta1.ImageTagStatus{Tag: name, Phase: phase, CompletionTime: new(metav1.NewTime(ended))})
		obj.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"nginx": in}
	}
}

// result summarizes a decision: the action, the remaining tags, and the time until the next decision.
type result struct {
	Do    string
	Tags  []string
	After time.Duration
}

func resultOf(d decision) (r result) {
	r.After = d.After
	changed := d.Change
	switch {
	case d.Create != nil:
		r.Do = "create"
	case d.Delete:
		r.Do = "delete"
	case changed != nil:
		r.Do = "change"
		for _, t := range changed.Spec.Images["nginx"].Tags {
			r.Tags = append(r.Tags, t.Tag)
		}
	}
	return r
}

func TestDecide(t *testing.T) {
	gone := func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.NewTime(noon)) }
	for _, tc := range []struct {
		name  string
		node  *corev1.Node
		image *v1beta1.NodeImage
		want  result
	}{
		{"IP-30 ready for long", node(), nil, result{Do: "create"}},
		{"IP-30 ready for a while", node(func(n *corev1.Node) {
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-10 * time.Second))
		}), nil, result{After: 20 * time.Second}},
		{"IP-30 not ready", node(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), nil, result{}},
		{"IP-30 nothing known about the Node", node(func(n *corev1.Node) { n.Status.Conditions = nil }), nil, result{}},
		{"IP-30 a virtual Node", node(func(n *corev1.Node) { n.Labels["type"] = "virtual-kubelet" }), nil, result{}},
		{"IP-31 the Node terminates", node(gone), image(), result{Do: "delete"}},
		{"IP-31 the Node terminates without a NodeImage", node(gone), nil, result{}},
		{"IP-31 for tests", node(gone), image(func(o *v1beta1.NodeImage) { o.Labels["apps.kruise.io/fake-nodeimage"] = "" }), result{}},
		{"IP-32 other labels", node(), image(func(o *v1beta1.NodeImage) { o.Labels = map[string]string{"zone": "a", "mine": "x"} }), result{Do: "change"}},
		{"nothing to do", node(), image(), result{}},
		{"IP-33 a job that is gone", node(), image(tag("1", "gone"), tag("2", "a"), recent), result{Do: "change", Tags: []string{"2"}, After: 19 * time.Minute}},
		{"IP-33 one of two jobs is gone", node(), image(tag("1", "gone", "a"), recent), result{Do: "change", Tags: []string{"1"}, After: 19 * time.Minute}},
		{"IP-33 the TTL has passed", node(), image(tag("1", "a"), answered("1", "Succeeded", noon.Add(-20*time.Minute))), result{Do: "change"}},
		{"IP-33 the TTL runs", node(), image(tag("1", "a"), answered("1", "Failed", noon.Add(-4*time.Minute))), result{After: 6 * time.Minute}},
		{"IP-33 an answer in the future", node(), image(tag("1", "a"), answered("1", "Succeeded", noon.Add(time.Hour))), result{After: 10 * time.Minute}},
		{"IP-33 a job that still counts its Nodes", node(), image(tag("1", "running"), answered("1", "Succeeded", noon.Add(-20*time.Minute))), result{}},
		{"IP-34 no agent for long", node(), image(tag("1", "a")), result{Do: "change"}},
		{"IP-33 tags of users stay until their TTL", node(), image(tag("1"), answered("1", "Succeeded", noon.Add(-time.Minute))), result{After: 9 * time.Minute}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.image.DeepCopy()
			d := decide(&observation{
				Node: tc.node, Image: tc.image, Delay: 30 * time.Second, Now: noon,
				Exists: func(ref corev1.ObjectReference) bool { return ref.UID != "gone" },
				Runs:   func(ref corev1.ObjectReference) bool { return ref.UID == "running" },
			})
			if diff := cmp.Diff(tc.want, resultOf(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.image); diff != "" {
				t.Errorf("the input is changed:\n%s", diff)
			}
		})
	}
}
