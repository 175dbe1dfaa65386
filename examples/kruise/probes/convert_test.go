package probes_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/node/probing"
)

// TestThereAndBack: entries and reports are unchanged after a conversion to a spec or status and back.
func TestThereAndBack(t *testing.T) {
	entries := []probing.Entry{{Namespace: "a", Name: "x", UID: "u", IP: "10.0.0.1", Probes: []probing.Assigned{{
		Name: "m#p", Container: "app", Probe: corev1.Probe{PeriodSeconds: 5, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}},
	}}}}
	spec := probes.SpecOf(entries)
	if diff := cmp.Diff(entries, probes.Entries(&spec)); diff != "" {
		t.Errorf("7.2 entries (-want +got):\n%s", diff)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	reports := []probing.Report{{Namespace: "a", Name: "x", UID: "u", States: []probing.ProbeState{{Name: "m#p", State: probing.Failed, Message: "m", Probed: at, Changed: at}}}}
	status := probes.StatusOf(reports)
	if diff := cmp.Diff(reports, probes.Reports(&status)); diff != "" {
		t.Errorf("7.2 reports (-want +got):\n%s", diff)
	}
}

// TestResolve: an invalid part of a PodProbeMarker, such as a selector or a condition with another use in Kubernetes,
// has no effect.
func TestResolve(t *testing.T) {
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}
	marker.Spec.Selector = &metav1.LabelSelector{}
	handler := v1alpha1.ContainerProbeSpec{Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}}
	marker.Spec.Probes = []v1alpha1.PodContainerProbe{{Name: "p", ContainerName: "app", PodConditionType: "Ready", Probe: handler}, {Name: "q", ContainerName: "app", PodConditionType: "c", Probe: handler}, {Name: "r", ContainerName: "app", PodConditionType: "d"}}
	got, problems := probes.Resolve(marker)
	if got.Selector.Matches(labels.Set{"a": "b"}) || len(problems) == 0 {
		t.Errorf("7.1 selector %s, problems %v", got.Selector, problems)
	}
	if len(got.Probes) != 1 || got.Probes[0].Name != "q" {
		t.Errorf("7.1 probes %+v", got.Probes)
	}
}
