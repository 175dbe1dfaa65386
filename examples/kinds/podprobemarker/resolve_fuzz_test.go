package podprobemarker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

// FuzzResolve: for any spec, the controller reports the values that admission refuses, at the same paths. Refused
// probes and selectors have no effect, and the marks of accepted probes can be written into a Pod.
func FuzzResolve(f *testing.F) {
	rules := endpoint(admission.Options{})
	f.Add(`{"selector":{"matchLabels":{"app":"db"}},"probes":[{"name":"p","containerName":"db","podConditionType":"a.b/c","probe":{"exec":{"command":["x"]}}}]}`)
	f.Add(`{"selector":{},"probes":[]}`)
	f.Add(`{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]},"probes":[{"name":"a#b","probe":{"grpc":{"port":0}}}]}`)
	f.Add(`{"selector":{"matchLabels":{"app":"db"}},"probes":[{"name":"p","containerName":"db","probe":{"tcpSocket":{"port":"web","host":"10.0.0.1"}},"markerPolicy":[{"state":"Failed","labels":{"a":"b c"}}]}]}`)
	f.Add(`{"selector":{"matchLabels":{"app":"db"}},"probes":[{"name":"p","containerName":"db","podConditionType":"Ready","probe":{"httpGet":{"port":80,"path":"/","scheme":"HTTP"}}},{"name":"p","containerName":"db","probe":{"exec":{"command":[""]}},"markerPolicy":[{"state":"Succeeded","annotations":{"kruise.io/podprobe-marks":"{}"}}]}]}`)
	f.Add(`{"selector":{"matchLabels":7},"probes":[{"name":[],"markerPolicy":[{"state":"Succeeded","labels":{"a":"b"}},{"state":"Succeeded","labels":{"a":"c"}}]},null]}`)
	f.Fuzz(func(t *testing.T, spec string) {
		obj := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
		if json.Unmarshal([]byte(spec), &obj.Spec) != nil {
			t.Skip("no object")
		}
		before := obj.DeepCopy()
		marker, problems := probes.Resolve(obj)
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("changed by being looked at (-before +after):\n%s", diff)
		}
		if len(obj.Spec.Undecodable) > 0 {
			if len(problems) == 0 || len(marker.Probes) > 0 || marker.Selector.String() != labels.Nothing().String() {
				t.Errorf("undecodable %v: %v, %+v", obj.Spec.Undecodable, problems, marker)
			}
			return
		}
		errs, err := rules.ValidateCreate(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		refused := map[string]bool{}
		for _, e := range errs {
			refused[e.Field] = true
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(refused)), paths(problems)); diff != "" {
			t.Errorf("(-refused by admission +reported by the controller):\n%s", diff)
		}
		book, invalid := probing.NewBook(probes.Annotations(), []probing.Marker{marker})
		if len(invalid) > 0 {
			t.Errorf("accepted by the controller, and refused by the kit: %v", invalid)
		}
		checkMarks(t, book, &marker)
	})
}

func paths(list reason.List) []string {
	set := map[string]bool{}
	for _, why := range list {
		set[why.Path] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// checkMarks marks a Pod for both states of all probes, and then removes the marks.
func checkMarks(t *testing.T, book *probing.Book, marker *probing.Marker) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "x", Annotations: map[string]string{probes.Annotations().List: "m"}}}
	for i := range marker.Probes {
		if c := marker.Probes[i].Container; !slices.ContainsFunc(pod.Spec.Containers, func(have corev1.Container) bool { return have.Name == c }) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c})
		}
	}
	for _, state := range []probing.State{probing.Succeeded, probing.Failed, probing.Unknown} {
		var states []probing.ProbeState
		for i := range marker.Probes {
			states = append(states, probing.ProbeState{Name: marker.Name + "#" + marker.Probes[i].Name, State: state})
		}
		change, _ := book.Mark(pod, states)
		set := map[string]string{}
		for key, value := range change.Labels {
			if value != nil {
				set[key] = *value
			}
		}
		if errs := validation.ValidateLabels(set, nil); len(errs) > 0 {
			t.Errorf("a Pod gets impossible labels: %v", errs)
		}
		for _, c := range change.Conditions {
			if c.Type == corev1.PodReady || c.Type == corev1.PodScheduled || c.Type == "" {
				t.Errorf("a Pod gets the condition %s", fmt.Sprint(c))
			}
		}
		if _, set := change.Annotations[probes.Annotations().List]; set {
			t.Error("a Pod gets another list of markers")
		}
	}
}
