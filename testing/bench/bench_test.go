package bench_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/bench"
)

// deployment is a kind with a controller in every control plane.
func deployment() bench.Workload {
	return bench.Workload{
		Name: "deployment",
		List: func() client.ObjectList { return &appsv1.DeploymentList{} },
		Object: func(s bench.Shape) client.Object {
			return &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: bench.Namespace, Name: s.Name},
				Spec: appsv1.DeploymentSpec{
					Replicas: ptr.To(int32(s.Pods)), Selector: s.Selector(), Template: s.Template,
					Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &s.MaxUnavailable}},
				},
			}
		},
		Settled: func(object client.Object, pods int) bool {
			d, ok := object.(*appsv1.Deployment)
			want, s := int32(pods), &d.Status
			return ok && s.ObservedGeneration >= d.Generation && s.Replicas == want && s.UpdatedReplicas == want && s.AvailableReplicas == want
		},
	}
}

// manager writes a shell script to a file, and returns its path; the bench runs the script in place of a manager.
func manager(t *testing.T, script string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	path := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDeployment measures a manager that does nothing while the control plane rolls out a Deployment. The bench must
// see the Pods, and must count no request of the manager.
func TestDeployment(t *testing.T) {
	o := bench.NewOptions(manager(t, "exec sleep 600"), deployment())
	o.Pods, o.Nodes, o.Phases, o.Progress = 6, 2, []string{"in-place", "scale-down"}, os.Stderr
	result, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	type counts struct {
		Phase                  string
		Writes                 int
		Kept, Created, Deleted int
	}
	var got []counts
	for _, f := range result.Phases {
		got = append(got, counts{f.Phase, f.AllWrites(), f.Kept, f.Created, f.Deleted})
	}
	want := []counts{{"scale-up", 0, 0, 6, 0}, {"in-place", 0, 0, 6, 6}, {"scale-down", 0, 0, 0, 6}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	var page, printed bytes.Buffer
	if err := result.WriteHTML(&page); err != nil || !strings.Contains(page.String(), "Change of image: ") {
		t.Errorf("picture: error %v\n%s", err, page.String())
	}
	if result.Print(&printed); !strings.Contains(printed.String(), "6 Pods of 1 deployment, 2 Nodes, change image") {
		t.Errorf("printed:\n%s", printed.String())
	}
}

// TestManagerThatEnds: the error says that the manager has ended. The error does not mention the bench's own request
// that was interrupted.
func TestManagerThatEnds(t *testing.T) {
	o := bench.NewOptions(manager(t, "echo no flag --kubeconfig; exit 3"), deployment())
	o.Pods, o.Nodes = 1, 1
	_, err := bench.Run(t.Context(), o)
	for _, want := range []string{"ended by itself (exit status 3)", "no flag --kubeconfig"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
