package sidecarcontrol_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

func TestMatch(t *testing.T) {
	in := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	for _, tc := range []struct {
		name            string
		pods, namespace *metav1.LabelSelector
		want            bool
	}{
		{"SC-12 a label", selector("app", "web"), nil, true},
		{"SC-12 another value", selector("app", "db"), nil, false},
		{"SC-12 nil selects nothing", nil, nil, false},
		{"SC-12 empty selects nothing", &metav1.LabelSelector{}, nil, false},
		{"SC-12 one of several", in("app", metav1.LabelSelectorOpIn, "db", "web"), nil, true},
		{"SC-12 the label exists", in("app", metav1.LabelSelectorOpExists), nil, true},
		{"SC-12 it does not exist", in("app", metav1.LabelSelectorOpDoesNotExist), nil, false},
		{"SC-12 another label does not exist", in("none", metav1.LabelSelectorOpDoesNotExist), nil, true},
		{"SC-11 the namespace", selector("app", "web"), selector("kubernetes.io/metadata.name", "team"), true},
		{"SC-11 another namespace", selector("app", "web"), selector("kubernetes.io/metadata.name", "other"), false},
		{"SC-11 one of several", in("app", metav1.LabelSelectorOpExists), in("kubernetes.io/metadata.name", metav1.LabelSelectorOpIn, "x", "team"), true},
		{"SC-12 an empty selector of namespaces selects all", selector("app", "web"), &metav1.LabelSelector{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := newSet(t, sidecarcontrol.Spec{Name: "one", Selector: tc.pods, NamespaceSelector: tc.namespace})
			namespace := map[string]string{"kubernetes.io/metadata.name": "team"}
			if got := len(sidecarcontrol.NewIndex(set).Match(newPod("app"), namespace)) == 1; got != tc.want {
				t.Errorf("found %v", got)
			}
			if got := set.Matches(newPod("app").Labels, namespace); got != tc.want {
				t.Errorf("matches %v", got)
			}
		})
	}
}

// TestIndexFindsWhatMatches compares the index with a test of every single set, while sets are added, changed and
// deleted.
func TestIndexFindsWhatMatches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	index, all := sidecarcontrol.NewIndex(), map[string]*sidecarcontrol.Set{}
	randomSelector := func() *metav1.LabelSelector {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for range random.IntN(3) {
			s.MatchLabels[pick("a", "b", "c")] = pick("1", "2")
		}
		if random.IntN(2) == 0 {
			s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: pick("a", "b", "c"), Operator: metav1.LabelSelectorOpIn, Values: []string{"1", pick("2", "3")}}}
		}
		if random.IntN(4) == 0 {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: pick("a", "d"), Operator: metav1.LabelSelectorOpExists})
		}
		return s
	}
	found := 0
	for range 3000 {
		name := fmt.Sprint("set-", random.IntN(60))
		if random.IntN(4) == 0 {
			index.Delete(name)
			delete(all, name)
		} else {
			s := sidecarcontrol.Spec{Name: name, Selector: randomSelector()}
			if random.IntN(2) == 0 {
				s.NamespaceSelector = randomSelector()
			}
			all[name] = newSet(t, s)
			index.Put(all[name])
		}
		pod, namespace := &corev1.Pod{}, map[string]string{}
		pod.Labels = map[string]string{}
		for range random.IntN(4) {
			pod.Labels[pick("a", "b", "c", "d")] = pick("1", "2", "3")
			namespace[pick("a", "b", "c")] = pick("1", "2", "3")
		}
		var want, got []string
		for _, set := range all {
			if set.Matches(pod.Labels, namespace) {
				want = append(want, set.Name())
			}
		}
		slices.Sort(want)
		for _, set := range index.Match(pod, namespace) {
			got = append(got, set.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Pod %v in %v (-want +got):\n%s", pod.Labels, namespace, diff)
		}
		found += len(got)
	}
	if found < 1000 || index.Len() != len(all) {
		t.Errorf("%d sets were found in all, and %d of %d are in the index: too few to prove anything", found, index.Len(), len(all))
	}
}
