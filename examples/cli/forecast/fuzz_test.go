package forecast_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/cli/forecast"
)

// FuzzOf turns each byte into the fate of a Pod: kept, updated, deleted, recreated or created. Each Pod is in the
// report once, batches contain exactly the Pods that are not kept, equal inputs give equal reports, and no line of
// the text is longer than a terminal.
func FuzzOf(f *testing.F) {
	f.Add([]byte{}, uint8(0), "x")
	f.Add([]byte{0, 1, 2, 3, 4}, uint8(0), "a field")
	f.Add([]byte{1, 1, 1, 129, 65}, uint8(1), strings.Repeat("long", 60))
	f.Add([]byte{3, 3, 67, 131, 4, 2}, uint8(2), "ä ö")
	f.Fuzz(func(t *testing.T, steps []byte, kind uint8, text string) {
		if len(steps) > 100 {
			return
		}
		var before, after []*corev1.Pod
		var writes []forecast.Write
		for i, step := range steps {
			name, at := fmt.Sprintf("web-%d", i), time.Duration(step>>3)*time.Second
			switch step % 5 {
			case 0:
				before, after = append(before, pod(name, "1")), append(after, pod(name, "1"))
			case 1:
				before, after = append(before, pod(name, "1")), append(after, pod(name, "2"))
				writes = append(writes, write(at, "patch", name))
			case 2:
				before, writes = append(before, pod(name, "1")), append(writes, write(at, "delete", name))
			case 3:
				before, after = append(before, pod(name, "1")), append(after, pod(name, "2", name+"-new"))
				writes = append(writes, write(at, "delete", name))
			case 4:
				after, writes = append(after, pod(name, "2")), append(writes, write(at, "create", name))
			}
		}
		kinds := []string{"CloneSet", "StatefulSet", "DaemonSet"}
		in := input(kinds[int(kind)%len(kinds)], "InPlaceIfPossible", before, after, writes...)
		in.Warnings = []string{text}
		r := forecast.Of(in)
		checkReport(t, r, len(before))
		if again := forecast.Of(in); !reflect.DeepEqual(r, again) {
			t.Errorf("two reports of the same input:\n%+v\n%+v", r, again)
		}
		for line := range strings.Lines(forecast.Text(r, kind%2 == 0)) {
			if len(line) > 80 {
				t.Errorf("a line of %d bytes: %s", len(line), line)
			}
		}
	})
}

func checkReport(t *testing.T, r *forecast.Report, before int) {
	t.Helper()
	seen, inBatch := map[string]bool{}, 0
	for i := range r.Pods {
		p := &r.Pods[i]
		if seen[p.UID] {
			t.Errorf("Pod %s is there twice", p.UID)
		}
		if seen[p.UID] = true; (p.Batch == 0) != (p.Action == forecast.Keep) {
			t.Errorf("%s of Pod %s is in batch %d", p.Action, p.Name, p.Batch)
		}
		if p.Action != forecast.Create {
			before--
		}
	}
	for _, b := range r.Batches {
		inBatch += len(b.Pods)
	}
	if kept := r.Count(forecast.Keep); before != 0 || inBatch != len(r.Pods)-kept {
		t.Errorf("%d Pods of the cluster are missing; %d Pods are in batches, and %d of %d are kept", before, inBatch, kept, len(r.Pods))
	}
}
