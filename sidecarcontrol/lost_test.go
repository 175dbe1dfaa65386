package sidecarcontrol_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// TestLostState: whatever happens to the records of an upgrade, the Pod does not serve before its node runs the new
// image.
func TestLostState(t *testing.T) {
	version := func(image string) *sidecarcontrol.Set {
		s := spec("one", "a", "b")
		s.InitContainers = []sidecarcontrol.Sidecar{native("n")}
		s.Containers[0].Image = image
		return newSet(t, s)
	}
	c, v1, v2, later := newControl(t), version("a:v1"), version("a:v2"), now.Add(time.Hour)
	for _, lose := range []string{"", "{}", `{"one":{}}`} {
		pod := injected(t, v1, newSet(t, spec("two", "c")))
		pod.CreationTimestamp = metav1.NewTime(now.Add(-1))
		standing := c.Read(pod, v2, later)
		change, err := c.Upgrade(&standing, v2, later)
		if err != nil {
			t.Fatal(err)
		}
		pod = send(t, pod, change)
		pod.Annotations[keys().StateAnnotation] = lose
		standing = c.Read(pod, v2, later)
		if standing.Serves() || !errors.Is(standing.Waiting, inplaceupdate.StateLost) || len(standing.Waiting) != 1 {
			t.Errorf("state %q: serves %t, waiting %v", lose, standing.Serves(), standing.Waiting)
		}
		if waiting := c.Unfinished(pod, later); len(waiting) != 1 {
			t.Errorf("state %q: unfinished %v", lose, waiting)
		}
		if other := c.Read(pod, newSet(t, spec("two", "c")), later); !other.Busy {
			t.Errorf("state %q: another set does not wait", lose)
		}
		node(pod)
		if standing = c.Read(pod, v2, later); !standing.Serves() || len(c.Unfinished(pod, later)) > 0 {
			t.Errorf("state %q: waiting %v", lose, standing.Waiting)
		}
	}
}

// TestNotLost: a node may report an image by another name of the image, or by an ID.
func TestNotLost(t *testing.T) {
	c, set := newControl(t), newSet(t, spec("one", "a"))
	for name, tc := range map[string]struct {
		image      string
		generation int64
	}{
		"another tag, of a Pod that nobody has changed": {"mirror.test/a:stable", 1},
		"an ID, because the tag was moved":              {"sha256:0123", 2},
	} {
		pod := injected(t, set)
		pod.Generation, pod.Status.ObservedGeneration = tc.generation, tc.generation
		pod.Status.ContainerStatuses[1].Image = tc.image
		if standing := c.Read(pod, set, now); !standing.Serves() {
			t.Errorf("%s: waiting %v", name, standing.Waiting)
		}
	}
}
