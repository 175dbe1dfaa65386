package progress

import (
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// job returns the Progress of a job. The kinds of jobs have the same phases, with different spellings.
func (j *judge) job() Progress {
	text := fmt.Sprintf("%s %q: %s", j.kind, j.name, j.counts())
	switch phase := j.phase(); phase {
	case "completed", "succeeded":
		return Progress{State: Done, Text: text}
	case "failed", "error":
		why := j.because(JobFailed, "status.phase", j.said(), "")
		return Progress{State: Stuck, Text: text + ": " + why[0].Detail, Why: why}
	case "paused":
		return Progress{State: Paused, Text: text, Why: j.because(RolloutPaused, j.pausePath, "", "kubectl kruise rollout resume")}
	default:
		return Progress{State: Running, Text: text, Why: j.because(JobRunning, "status.phase", phase, "")}
	}
}

// phase returns the phase in lower case. For kinds without a phase, a completion time means that the job has ended,
// and status.failed says whether the job has failed. A completed ContainerRecreateRequest counts as failed if one of
// its containers has failed.
func (j *judge) phase() string {
	phase := strings.ToLower(fields.String(j.o, "status.phase"))
	_, ended := fields.At(j.o, "status.completionTime")
	failed := fields.Int(j.o, "status.failed") > 0
	for _, container := range fields.List(j.o, "status.containerRecreateStates") {
		failed = failed || fields.String(container, "phase") == "Failed"
	}
	switch {
	case phase == "" && ended && !failed:
		return "completed"
	case ended && failed:
		return "failed"
	case phase == "":
		return "running"
	}
	return phase
}

func (j *judge) counts() string {
	words := []string{j.phase()}
	for _, name := range []string{"desired", "active", "succeeded", "failed", "match", "running", "waiting"} {
		if _, found := fields.At(j.o, "status."+name); found {
			words = append(words, fmt.Sprintf("%s %d", name, fields.Int(j.o, "status."+name)))
		}
	}
	return strings.Join(words, ", ")
}

// said returns the messages about a failure that the controller has written into the status.
func (j *judge) said() string {
	var words []string
	if message := fields.String(j.o, "status.message"); message != "" {
		words = append(words, message)
	}
	for _, container := range fields.List(j.o, "status.containerRecreateStates") {
		if fields.String(container, "phase") == "Failed" {
			words = append(words, fmt.Sprintf("container %s: %s", fields.String(container, "name"), fields.String(container, "message")))
		}
	}
	for _, c := range fields.Conditions(j.o) {
		if c.Status == "True" && c.Message != "" {
			words = append(words, c.Message)
		}
	}
	if len(words) == 0 {
		return "the job has failed"
	}
	return strings.Join(words, "; ")
}
