package inplaceupdate_test

import (
	"strings"
	"testing"
	"time"
)

// TestGraceOfTheFuture: the clock that dated the state was wrong, or a user has edited the date. The held-back change is delivered.
func TestGraceOfTheFuture(t *testing.T) {
	order := []func(*template){limits(1, "cpu", "200m")}
	from := newTemplate(order...)
	updater, to := newUpdater(), newTemplate(append(order, image("app", "app:v2"))...)
	for name, at := range map[string]string{"a year": "2027-11-26T00:00:00Z", "2300": "2300-01-01T00:00:00Z", "9999": "9999-01-01T00:00:00Z"} {
		pod := write(t, newPod(from), mustStart(t, updater, newPod(from), from, to, toward("web-2", 30), now))
		state := pod.Annotations[stateKey]
		before, rest, _ := strings.Cut(state, `"updateTimestamp":"`)
		_, rest, _ = strings.Cut(rest, `"`)
		pod.Annotations[stateKey] = before + `"updateTimestamp":"` + at + `"` + rest
		step, err := updater.Next(pod, now.Add(time.Hour))
		if err != nil || step.Change.Images["app"] != "app:v2" {
			t.Errorf("%s: waiting %v, again in %s, change %v, error %v", name, step.Waiting, step.RequeueAfter, step.Change.Images, err)
		}
	}
}
