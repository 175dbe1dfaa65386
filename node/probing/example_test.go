package probing_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/podpatch"
)

// The primary of a database gets the label role=primary. The manager writes the spec of a Node, the agent probes and
// reports, and the manager marks the Pod. When the Marker is deleted, the manager removes the label.
func Example() {
	primary := probing.Marker{
		Namespace: "prod", Name: "database", Selector: labels.SelectorFromSet(labels.Set{"app": "db"}),
		Probes: []probing.Probe{{
			Name: "primary", Container: "db",
			Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"is-primary"}}}},
			Marks: []probing.Marks{{State: probing.Succeeded, Labels: map[string]string{"role": "primary"}}},
		}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "db-0", UID: "1234", Labels: map[string]string{"app": "db"}},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "db"}}},
		Status: corev1.PodStatus{PodIP: "10.0.0.7", Conditions: []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		}},
	}
	annotations := probing.Annotations{Ledger: "example.com/probe-marks"}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	// The manager writes the spec of the Node.
	book, _ := probing.NewBook(annotations, []probing.Marker{primary})
	byNode, _ := book.Assign([]*corev1.Pod{pod})
	entries := byNode["node-a"]

	// The agent runs the probes. Package prober carries out step.Record.Check.
	records := map[probing.Slot]probing.Record{}
	db := probing.Instance{ID: "c1", Running: true, Started: now.Add(-time.Minute)}
	for _, target := range probing.Targets(entries, now.Add(-time.Hour)) {
		step := probing.Next(&target, records[target.Slot()], db, now)
		fmt.Println("run", target.Name, step.Record.Check.Exec, "for at most", step.Record.Check.Timeout)
		result := probing.Result{Verdict: probing.Pass, Message: "yes"}
		records[target.Slot()] = probing.Observe(&target, step.Record, step.Record, result, now)
	}
	published := probing.Publish(nil, entries, records, probing.Rhythm{}, time.Time{}, now)
	fmt.Println("write the status:", published.Write)

	// The manager accepts only the states of probes in the Node's spec.
	lie := probing.Report{Namespace: "prod", Name: "db-0", UID: "1234", States: []probing.ProbeState{{Name: "backup#done", State: probing.Succeeded}}}
	states, refused := probing.Accept("node-a", entries, append(published.Reports, lie), []*corev1.Pod{pod})
	fmt.Println(refused)
	change, _ := book.Mark(pod, states[pod.UID])
	patches, _ := podpatch.Merge(pod, now, change)
	fmt.Printf("%s\n", patches.Requests[0].Body)

	// The Marker is deleted.
	pod.Labels["role"], pod.Annotations = "primary", map[string]string{annotations.Ledger: *change.Annotations[annotations.Ledger]}
	empty, _ := probing.NewBook(annotations, nil)
	change, _ = empty.Mark(pod, nil)
	patches, _ = podpatch.Merge(pod, now, change)
	fmt.Printf("%s\n", patches.Requests[0].Body)

	// Output:
	// run database#primary [is-primary] for at most 1s
	// write the status: true
	// StateNotAsked: Pod prod/db-0: status: "backup#done": the spec of the Node has no such probe
	// {"metadata":{"uid":"1234","labels":{"role":"primary"},"annotations":{"example.com/probe-marks":"{\"database#primary\":{\"labels\":{\"role\":\"primary\"}}}"}}}
	// {"metadata":{"uid":"1234","labels":{"role":null},"annotations":{"example.com/probe-marks":null}}}
}
