package imagename_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/internal/imagename"
)

func TestFull(t *testing.T) {
	const digest = "@sha256:0123"
	got := map[string]string{}
	want := map[string]string{
		"app":                       "docker.io/library/app:latest",
		"app:v1":                    "docker.io/library/app:v1",
		"org/app:v1":                "docker.io/org/app:v1",
		"index.docker.io/app:v1":    "docker.io/library/app:v1",
		"localhost/app":             "localhost/app:latest",
		"127.0.0.1:5000/app":        "127.0.0.1:5000/app:latest",
		"127.0.0.1:5000/app:v1":     "127.0.0.1:5000/app:v1",
		"app" + digest:              "docker.io/library/app" + digest,
		"quay.io/o/app:v1" + digest: "quay.io/o/app" + digest,
	}
	for image := range want {
		got[image] = imagename.Full(image)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("full names (-want +got):\n%s", diff)
	}
}

func TestRepository(t *testing.T) {
	for name, want := range map[string]string{
		"docker.io/library/app:v1":             "docker.io/library/app",
		"127.0.0.1:5000/app":                   "127.0.0.1:5000/app",
		"127.0.0.1:5000/app@sha256:0123":       "127.0.0.1:5000/app",
		"docker.io/library/app:v1@sha256:0123": "docker.io/library/app",
	} {
		if got := imagename.Repository(name); got != want {
			t.Errorf("the repository of %s is %s, want %s", name, got, want)
		}
	}
}
