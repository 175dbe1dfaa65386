package onnode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func image(t testing.TB, name string) imagepull.Reference {
	t.Helper()
	ref, err := imagepull.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// ask adds an image to a NodeImage for a job, as the controller of ImagePullJobs does.
func ask(t testing.TB, obj *v1beta1.NodeImage, name, uid string, policy imagepull.Policy, now time.Time) (changed bool) {
	t.Helper()
	wants := onnode.Wants(&obj.Spec)
	reports, _ := imagepull.Merge(wants, nil, onnode.Reports(obj), now)
	wants, err := imagepull.AddClaim(wants, reports, image(t, name), imagepull.Claim{Owner: imagepull.Owner(uid), Since: now, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return onnode.SetWants(&obj.Spec, wants, map[imagepull.Owner]corev1.ObjectReference{imagepull.Owner(uid): {Kind: "ImagePullJob", UID: types.UID(uid)}}, now)
}

func Example() {
	obj := &v1beta1.NodeImage{}
	nginx, err := imagepull.Parse("nginx:1.27")
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wants, err := imagepull.AddClaim(nil, nil, nginx, imagepull.Claim{Owner: "job-1", Since: now})
	if err != nil {
		panic(err)
	}
	owners := map[imagepull.Owner]corev1.ObjectReference{"job-1": {Kind: "ImagePullJob", Namespace: "ci", Name: "warm", UID: "job-1"}}
	fmt.Println(onnode.SetWants(&obj.Spec, wants, owners, now))
	tag := obj.Spec.Images["nginx"].Tags[0]
	fmt.Println(tag.Tag, tag.OwnerReferences[0].Name, *tag.PullPolicy.TimeoutSeconds)
	// Output:
	// true
	// 1.27 warm 600
}

// TestTakeOver: reading NodeImages of OpenKruise and writing the same values back changes nothing.
func TestTakeOver(t *testing.T) {
	files, err := filepath.Glob("../testdata/openkruise-*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(raw), "\n---\n") {
			obj := &v1beta1.NodeImage{}
			if err := yaml.Unmarshal([]byte(document), obj); err != nil {
				t.Fatal(err)
			}
			if obj.Kind != "NodeImage" {
				continue
			}
			before := obj.DeepCopy()
			wants := onnode.Wants(&obj.Spec)
			if len(wants) != 1 || onnode.SetWants(&obj.Spec, wants, nil, noon) || !cmp.Equal(before, obj) {
				t.Errorf("IP-4 %s: %+v\n%s", file, wants, cmp.Diff(before, obj))
			}
			want := imagepull.Policy{Timeout: 300 * time.Second, Retries: 3, Deadline: new(600 * time.Second), TTL: new(1080 * time.Second)}
			if diff := cmp.Diff(want, wants[0].Claims[0].Policy); diff != "" {
				t.Errorf("IP-7 %s (-want +got):\n%s", file, diff)
			}
		}
	}
}

// TestClaims: several jobs want the same tag, and each job keeps the result of its own pull.
func TestClaims(t *testing.T) {
	obj := &v1beta1.NodeImage{}
	ask(t, obj, "nginx:1", "a", imagepull.Policy{Timeout: time.Minute, TTL: new(time.Hour)}, noon)
	tag := func() *v1beta1.ImageTagSpec { return &obj.Spec.Images["nginx"].Tags[0] }
	if tag().Version != 0 || tag().ImagePullPolicy != corev1.PullIfNotPresent || len(tag().OwnerVersions) > 0 {
		t.Errorf("IP-4 %+v", tag())
	}
	obj.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"nginx": {Tags: []v1beta1.ImageTagStatus{{Tag: "1", Phase: v1beta1.ImagePhaseSucceeded, Present: new(true)}}}}
	ask(t, obj, "nginx:1", "b", imagepull.Policy{Timeout: time.Second, Always: true, TTL: new(time.Minute)}, noon.Add(time.Hour))
	if tag().Version != 1 || *tag().PullPolicy.TimeoutSeconds != 60 || *tag().PullPolicy.TTLSecondsAfterFinished != 3600 || tag().ImagePullPolicy != corev1.PullAlways {
		t.Errorf("IP-5 the most patient limits of both jobs: %+v", tag())
	}
	if diff := cmp.Diff(map[string]int64{"a": 0}, tag().OwnerVersions); diff != "" {
		t.Errorf("IP-6 (-want +got):\n%s", diff)
	}
	wants, reports := onnode.Look(obj, image(t, "nginx:1"), noon.Add(time.Hour))
	for owner, want := range map[imagepull.Owner]imagepull.State{"a": imagepull.Done, "b": imagepull.Active} {
		if got := imagepull.Judge(wants, reports, image(t, "nginx:1"), owner, noon.Add(time.Hour)); got.State != want {
			t.Errorf("IP-6, IP-9 job %s is %s, want %s", owner, got.State, want)
		}
	}
	if !onnode.SetWants(&obj.Spec, imagepull.Release(onnode.Wants(&obj.Spec), "b"), nil, noon) || len(tag().OwnerReferences) != 1 {
		t.Errorf("IP-33 %+v", tag())
	}
	if onnode.SetWants(&obj.Spec, nil, nil, noon); len(obj.Spec.Images) > 0 {
		t.Errorf("IP-33 %+v", obj.Spec)
	}
}

// TestWants: tags that name no valid image are ignored and stay as they are.
func TestWants(t *testing.T) {
	obj := &v1beta1.NodeImage{}
	digest := "sha256:" + strings.Repeat("a", 64)
	obj.Spec.Images = map[string]v1beta1.ImageSpec{
		"nginx":                   {Tags: []v1beta1.ImageTagSpec{{Tag: "1"}, {Tag: digest}, {Tag: "no tag"}}},
		"docker.io/library/nginx": {Tags: []v1beta1.ImageTagSpec{{Tag: "1"}}},
		"NO NAME":                 {Tags: []v1beta1.ImageTagSpec{{Tag: "1"}}},
	}
	var names []string
	for _, want := range onnode.Wants(&obj.Spec) {
		names = append(names, want.Image.String())
	}
	if diff := cmp.Diff([]string{"nginx:1", "nginx@" + digest}, names); diff != "" {
		t.Errorf("IP-1, 3.9 (-want +got):\n%s", diff)
	}
	onnode.SetWants(&obj.Spec, nil, nil, noon)
	left := map[string]v1beta1.ImageSpec{
		"nginx":   {Tags: []v1beta1.ImageTagSpec{{Tag: "1"}, {Tag: "no tag"}}},
		"NO NAME": {Tags: []v1beta1.ImageTagSpec{{Tag: "1"}}},
	}
	if diff := cmp.Diff(left, obj.Spec.Images); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReports(t *testing.T) {
	obj := &v1beta1.NodeImage{}
	ask(t, obj, "nginx:1", "a", imagepull.Policy{}, noon)
	ask(t, obj, "ghcr.io/a/b:2", "a", imagepull.Policy{}, noon)
	reports := []imagepull.Report{
		{Image: image(t, "nginx:1"), Phase: imagepull.Succeeded, Present: true, Attempts: 2, Started: noon, Ended: noon, ID: "x", Bytes: 5, Answers: []imagepull.Answer{{Phase: imagepull.Failed, Ended: noon, Message: "no"}}},
		{Image: image(t, "ghcr.io/a/b:2"), Phase: imagepull.Waiting, Attempts: 1, Started: noon, Again: noon.Add(time.Second), Losses: 3, Message: "again"},
		{Image: image(t, "unwanted:1"), Phase: imagepull.Failed},
	}
	onnode.SetReports(obj, reports, noon, imagepull.Condition("ImagesPresent", 1, onnode.Wants(&obj.Spec), reports[:2]))
	s := obj.Status
	if got := []int32{s.Desired, s.Succeeded, s.Failed, s.Pulling, s.Waiting}; !cmp.Equal(got, []int32{2, 1, 0, 0, 1}) {
		t.Errorf("3.3 numbers %v", got)
	}
	if len(s.Conditions) != 1 || s.Conditions[0].Status != metav1.ConditionFalse || !s.Conditions[0].LastTransitionTime.Time.Equal(noon) {
		t.Errorf("3.3 conditions %+v", s.Conditions)
	}
	got := onnode.Reports(obj)
	if diff := cmp.Diff([]imagepull.Report{reports[1], reports[0]}, got, cmp.Comparer(func(a, b imagepull.Reference) bool { return a == b })); diff != "" {
		t.Errorf("ND-63 (-want +got):\n%s", diff)
	}
}

func TestSecrets(t *testing.T) {
	obj := &v1beta1.NodeImage{}
	ask(t, obj, "reg.test/x:1", "a", imagepull.Policy{}, noon)
	ask(t, obj, "reg.test/x:2", "b", imagepull.Policy{}, noon)
	secret := func(name string, tags ...string) v1beta1.ReferenceObject {
		return v1beta1.ReferenceObject{Namespace: "kruise-daemon-config", Name: name, Mode: v1beta1.ReferenceModeBatch, Tags: tags}
	}
	one := image(t, "reg.test/x:1")
	if !onnode.SetSecrets(&obj.Spec, one, []v1beta1.ReferenceObject{secret("s")}) || onnode.SetSecrets(&obj.Spec, one, []v1beta1.ReferenceObject{secret("s")}) {
		t.Error("IP-20 a reference is added once")
	}
	if got := onnode.Secrets(&obj.Spec, image(t, "reg.test/x:2")); len(got) > 0 {
		t.Errorf("IP-67 another job's image: %v", got)
	}
	if onnode.Lacks(&obj.Spec, one, []v1beta1.ReferenceObject{secret("s")}) || !onnode.Lacks(&obj.Spec, image(t, "reg.test/x:2"), []v1beta1.ReferenceObject{secret("s")}) {
		t.Error("IP-9 lacks")
	}
	onnode.SetSecrets(&obj.Spec, image(t, "reg.test/x:2"), []v1beta1.ReferenceObject{secret("s")})
	if diff := cmp.Diff([]v1beta1.ReferenceObject{secret("s", "1", "2")}, obj.Spec.Images["reg.test/x"].PullSecrets); diff != "" {
		t.Errorf("IP-21 (-want +got):\n%s", diff)
	}
	onnode.SetSecrets(&obj.Spec, one, nil)
	if diff := cmp.Diff([]v1beta1.ReferenceObject{secret("s", "2")}, obj.Spec.Images["reg.test/x"].PullSecrets); diff != "" {
		t.Errorf("IP-61 (-want +got):\n%s", diff)
	}
	onnode.SetWants(&obj.Spec, imagepull.Release(onnode.Wants(&obj.Spec), "b"), nil, noon)
	if refs := obj.Spec.Images["reg.test/x"].PullSecrets; len(refs) > 0 {
		t.Errorf("IP-61 references of a tag that is gone: %v", refs)
	}
}

// FuzzRoundTrip: reading any NodeImage and writing the same values back changes nothing.
func FuzzRoundTrip(f *testing.F) {
	f.Add(`{"images":{"nginx":{"tags":[{"tag":"1","version":3,"ownerReferences":[{"uid":"a"}],"ownerVersions":{"a":2}}]}}}`)
	f.Add(`{"images":{"":{"tags":[{"tag":""}]},"a/b":{"tags":[{"tag":"x"},{"tag":"x","version":-4}]}}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		obj := &v1beta1.NodeImage{}
		if yaml.Unmarshal([]byte(raw), &obj.Spec) != nil {
			return
		}
		before := obj.DeepCopy()
		if onnode.SetWants(&obj.Spec, onnode.Wants(&obj.Spec), nil, noon) || !cmp.Equal(before, obj) {
			t.Errorf("changed: %s", cmp.Diff(before, obj))
		}
	})
}
