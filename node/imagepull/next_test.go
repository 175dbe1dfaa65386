package imagepull_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// step contains the fields of a Step that the test compares, with reports, actions and reasons as text.
type step struct {
	Reports, Actions string
	After            time.Duration
	Why              string
}

func compact(s imagepull.Step) step {
	var reports, actions, why []string
	for _, r := range s.Reports {
		word := fmt.Sprintf("%s r%d %s %d", r.Image.Name(), r.Round, r.Phase, r.Attempts)
		if r.Present {
			word += " present"
		}
		if !r.Again.IsZero() {
			word += " again " + r.Again.Sub(at(0)).String()
		}
		if r.Losses > 0 {
			word += fmt.Sprintf(" losses %d", r.Losses)
		}
		if r.Message != "" {
			word += " (" + r.Message + ")"
		}
		reports = append(reports, word)
	}
	for _, a := range s.Actions {
		word := fmt.Sprintf("%s %s r%d", a.Do, a.Image.Name(), a.Round)
		if a.Limit != 0 {
			word += " " + a.Limit.String()
		}
		actions = append(actions, word)
	}
	for _, r := range s.Why {
		why = append(why, string(r.Code))
	}
	return step{strings.Join(reports, ", "), strings.Join(actions, ", "), s.After, strings.Join(why, " ")}
}

// wanted returns a Want for each image, with one claim in round 1.
func wanted(p policy, names ...string) (out []want) {
	for _, name := range names {
		out = append(out, want{Image: ref(name), Round: 1, Claims: []claim{{Owner: "x", Round: 1, Since: at(0), Policy: p}}})
	}
	return out
}

func stored(names ...string) observed {
	o := observed{Listed: true}
	for _, name := range names {
		i := image{ID: "sha256:" + name, Bytes: 100}
		if r := ref(name); r.Digest() != "" {
			i.Digests = []string{r.Normal()}
		} else {
			i.Tags = []string{r.Normal()}
		}
		o.Images = append(o.Images, i)
	}
	return o
}

// with returns the observation with the given pulls.
func with(o observed, pulls ...pull) observed {
	o.Pulls = pulls
	return o
}

func free(o observed, bytes uint64) observed {
	o.Free = &bytes
	return o
}

const soon, later = 5 * time.Second, time.Minute

func TestNext(t *testing.T) {
	a := ref("a")
	running := pull{Image: a, Round: 1}
	ended := pull{Image: a, Round: 1, Ended: true, ID: "sha256:a"}
	broken := pull{Image: a, Round: 1, Ended: true, Err: errors.New("no such image")}
	pulling := report{Image: a, Round: 1, Phase: imagepull.Pulling, Attempts: 1, Started: at(0)}
	done := report{Image: a, Round: 1, Phase: imagepull.Succeeded, Present: true, Ended: at(0)}
	notFound := report{Image: a, Round: 1, Phase: imagepull.Failed, Message: "no such image", Ended: at(0)}
	keep := policy{Keep: true}
	hour := policy{Deadline: ptr.To(time.Hour), Retries: 9}
	old := at(-2 * 24 * 3600)
	for _, c := range []struct {
		name   string
		wants  []want
		before []report
		seen   observed
		bounds bounds
		now    int
		want   step
	}{
		{"nothing is wanted", nil, []report{pulling}, stored("a"), bounds{}, 0, step{}},
		{"ND-12 an absent image", wanted(policy{}, "a"), nil, stored(), bounds{}, 0, step{"a r1 Pulling 1", "Start a r1 10m0s", soon, ""}},
		{"ND-12 two at a time", wanted(policy{}, "a", "b", "c", "d", "e"), nil, stored(), bounds{Pulls: 2}, 0, step{
			"a r1 Pulling 1, b r1 Pulling 1, c r1 Waiting 0, d r1 Waiting 0, e r1 Waiting 0",
			"Start a r1 10m0s, Start b r1 10m0s", soon, "PullsReached PullsReached PullsReached",
		}},
		{"ND-12 one at a time by default", wanted(policy{}, "a", "b"), []report{pulling}, with(stored(), running), bounds{}, 1, step{"a r1 Pulling 1, b r1 Waiting 0", "", soon, "PullAwaited PullsReached"}},
		{"ND-14 present", wanted(policy{}, "a"), nil, stored("a"), bounds{}, 0, step{"a r1 Succeeded 0 present", "", later, ""}},
		{"ND-14 present under the full name", wanted(policy{}, "docker.io/library/a:latest"), nil, stored("a"), bounds{}, 0, step{"a r1 Succeeded 0 present", "", later, ""}},
		{"ND-14 another tag", wanted(policy{}, "a:v2"), nil, stored("a:v1"), bounds{}, 0, step{"a r1 Pulling 1", "Start a r1 10m0s", soon, ""}},
		{"ND-14 a present digest", wanted(policy{}, "a@"+sum), nil, stored("a@" + sum), bounds{}, 0, step{"a r1 Succeeded 0 present", "", later, ""}},
		{"ND-14 Always pulls", wanted(policy{Always: true}, "a"), nil, stored("a"), bounds{}, 0, step{"a r1 Pulling 1 present", "Start a r1 10m0s", soon, ""}},
		{"ND-14 Always pulls once", wanted(policy{Always: true}, "a"), []report{done}, stored("a"), bounds{}, 9, step{"a r1 Succeeded 0 present", "", later, ""}},
		{"ND-14 present, whatever registry", wanted(policy{}, "reg.io/a"), nil, stored("reg.io/a"), bounds{Registries: imagepull.Registries{"docker.io"}}, 0, step{"reg.io/a r1 Succeeded 0 present", "", later, ""}},
		{"ND-18 success", wanted(policy{}, "a"), []report{pulling}, with(stored("a"), ended), bounds{}, 9, step{"a r1 Succeeded 1 present", "", later, ""}},
		{"ND-18 success under another name", wanted(policy{}, "a"), []report{pulling}, with(stored(), ended), bounds{}, 9, step{"a r1 Succeeded 1 present", "", later, ""}},
		{"ND-18 the last attempt fails", wanted(policy{}, "a"), []report{pulling}, with(stored(), broken), bounds{}, 9, step{"a r1 Failed 1 (no such image)", "", later, "PullFailed"}},
		{"ND-18 a final error", wanted(policy{Retries: 9}, "a"), []report{pulling}, with(stored(), pull{Image: a, Round: 1, Ended: true, Err: reason.Final(errors.New("no such image"))}), bounds{}, 9, step{"a r1 Failed 1 (no such image)", "", later, "PullFailed"}},
		{"ND-13 an attempt fails", wanted(policy{Retries: 1}, "a"), []report{pulling}, with(stored(), broken), bounds{}, 9, step{"a r1 Waiting 1 again 10s (no such image)", "", time.Second, "PullRetried"}},
		{"ND-13 the pause goes on", wanted(policy{Retries: 1}, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Attempts: 1, Again: at(12)}}, stored(), bounds{}, 9, step{"a r1 Waiting 1 again 12s", "", 3 * time.Second, "PullRetried"}},
		{"ND-13 the pause ends", wanted(policy{Retries: 1}, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Attempts: 1, Again: at(9)}}, stored(), bounds{}, 9, step{"a r1 Pulling 2", "Start a r1 10m0s", soon, ""}},
		{"ND-13 the claim with more retries is gone", wanted(policy{Retries: 1}, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Attempts: 2, Again: at(9), Message: "no such image"}}, stored(), bounds{}, 9, step{"a r1 Failed 2 (no such image)", "", later, "PullFailed"}},
		{"ND-13 a pause leaves room for others", wanted(policy{Retries: 1}, "a", "b"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Attempts: 1, Again: at(12)}}, stored(), bounds{}, 9, step{"a r1 Waiting 1 again 12s, b r1 Pulling 1", "Start b r1 10m0s", 3 * time.Second, "PullRetried"}},
		{"ND-13 the deadline limits the attempt", wanted(hour, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Attempts: 1, Started: at(0)}}, stored(), bounds{}, 3590, step{"a r1 Pulling 2", "Start a r1 10s", soon, ""}},
		{"ND-13 the deadline stops the pull", wanted(hour, "a"), []report{pulling}, with(stored(), running), bounds{}, 3600, step{"a r1 Failed 1 (1h0m0s; allow more time)", "Stop a r1", later, "PullTooLong"}},
		{"ND-13 the deadline ends the wait", wanted(hour, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Attempts: 1, Started: at(0), Message: "no such image"}}, stored(), bounds{}, 3600, step{"a r1 Failed 1 (1h0m0s: no such image; allow more time)", "", later, "PullTooLong"}},
		{"ND-60 nobody wants the image", nil, []report{pulling}, with(stored(), running), bounds{}, 9, step{"", "Stop a r1", 0, ""}},
		{"ND-60 nobody wants the image, the pull has ended", nil, []report{pulling}, with(stored(), ended), bounds{}, 9, step{}},
		{"ND-61 a stopped pull takes a place", wanted(policy{}, "b"), nil, with(stored(), running), bounds{}, 9, step{"b r1 Waiting 0", "Stop a r1", soon, "PullsReached"}},
		{"ND-61 a stopped pull takes a place until the end", wanted(policy{}, "b"), nil, with(stored(), pull{Image: a, Round: 1, Stopping: true}), bounds{}, 9, step{"b r1 Waiting 0", "", soon, "PullsReached"}},
		{"ND-61 a stopped pull has no result", wanted(policy{}, "a"), nil, with(stored(), pull{Image: a, Round: 1, Stopping: true}), bounds{Pulls: 2}, 9, step{"a r1 Pulling 1", "Start a r1 10m0s", soon, ""}},
		{"ND-63 the agent was restarted", wanted(policy{Retries: 2}, "a"), []report{pulling}, stored(), bounds{}, 9, step{"a r1 Waiting 1 again 10s (the agent ended during the pull)", "", time.Second, "PullRetried"}},
		{"ND-63 the agent was restarted in the last attempt", wanted(policy{}, "a"), []report{pulling}, stored(), bounds{}, 9, step{"a r1 Failed 1 (the agent ended during the pull)", "", later, "PullRetried"}},
		{"ND-63 the agent was restarted after the pull", wanted(policy{}, "a"), []report{pulling}, stored("a"), bounds{}, 9, step{"a r1 Succeeded 1 present", "", later, ""}},
		{"ND-10 a new round", wanted(policy{}, "a"), []report{{Image: a, Phase: imagepull.Failed}}, stored(), bounds{}, 9, step{"a r1 Pulling 1", "Start a r1 10m0s", soon, ""}},
		{"ND-10 a new round joins the pull", wanted(policy{}, "a"), []report{{Image: a, Phase: imagepull.Pulling, Attempts: 3}}, with(stored(), pull{Image: a}), bounds{}, 9, step{"a r1 Pulling 1", "", soon, "PullAwaited"}},
		{"ND-10 a new round with Always pulls again", wanted(policy{Always: true}, "a"), []report{{Image: a, Phase: imagepull.Pulling, Attempts: 3}}, with(stored(), pull{Image: a}), bounds{Pulls: 2}, 9, step{"a r1 Pulling 1", "Stop a r0, Start a r1 10m0s", soon, ""}},
		{"ND-10 the end of an earlier round is not Always's", wanted(policy{Always: true}, "a"), nil, with(stored("a"), pull{Image: a, Ended: true}), bounds{}, 9, step{"a r1 Pulling 1 present", "Start a r1 10m0s", soon, ""}},
		{"ND-10 the end of an earlier round", wanted(policy{}, "a"), nil, with(stored("a"), pull{Image: a, Ended: true}), bounds{}, 9, step{"a r1 Succeeded 0 present", "", later, ""}},
		{"IP-68 an answer stops the pull", wanted(policy{}, "a"), []report{notFound}, with(stored(), running), bounds{}, 9, step{"a r1 Failed 0 (no such image)", "Stop a r1", later, ""}},
		{"the images are unknown", wanted(policy{Retries: 1}, "a", "b"), []report{done}, observed{}, bounds{}, 9, step{"a r1 Succeeded 0 present, b r1 Waiting 0", "", soon, "ImagesUnknown"}},
		{"the image is deleted", wanted(policy{}, "a"), []report{done}, stored(), bounds{}, 9, step{"a r1 Succeeded 0", "", later, ""}},
		{"a kept image is deleted", wanted(keep, "a"), []report{done}, stored(), bounds{}, 9, step{"a r1 Waiting 0 again 1m9s losses 1 (the image was deleted from the Node)", "", later, "ImageLost PullRetried"}},
		{"a kept image is deleted again", wanted(keep, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Succeeded, Ended: at(0), Losses: 3}}, stored(), bounds{}, 9, step{"a r1 Waiting 0 again 8m9s losses 4 (the image was deleted from the Node)", "", later, "ImageLost PullRetried"}},
		{"a kept image is deleted, and nobody knows when the pull ended", wanted(keep, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Succeeded, Losses: 3}}, stored(), bounds{}, 9, step{"a r1 Waiting 0 again 8m9s losses 4 (the image was deleted from the Node)", "", later, "ImageLost PullRetried"}},
		{"a kept image that was absent, and the images are unknown", wanted(keep, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Succeeded, Ended: at(0)}}, observed{}, bounds{}, 9, step{"a r1 Succeeded 0", "", later, ""}},
		{"the longest wait", wanted(keep, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Succeeded, Ended: at(0), Losses: 1 << 19}}, stored(), bounds{}, 0, step{"a r1 Waiting 0 again 4h0m0s losses 524289 (the image was deleted from the Node)", "", later, "ImageLost PullRetried"}},
		{"a kept image is deleted after a long time", wanted(keep, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Succeeded, Ended: old, Losses: 9}}, stored(), bounds{}, 0, step{"a r1 Waiting 0 again 1m0s losses 1 (the image was deleted from the Node)", "", later, "ImageLost PullRetried"}},
		{"a kept image that cannot be pulled", wanted(keep, "a"), []report{notFound}, stored(), bounds{}, 0, step{"a r1 Waiting 0 again 1m0s losses 1 (no such image)", "", later, "PullRetried"}},
		{"a kept image comes back by itself", wanted(keep, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Again: at(99), Losses: 2}}, stored("a"), bounds{}, 9, step{"a r1 Succeeded 0 present losses 2", "", later, ""}},
		{"a kept image with Always comes back by itself", wanted(policy{Keep: true, Always: true}, "a"), []report{{Image: a, Round: 1, Phase: imagepull.Waiting, Again: at(99), Losses: 2, Answers: []answer{{Round: 1, Phase: imagepull.Succeeded}}}}, stored("a"), bounds{}, 9, step{"a r1 Succeeded 0 present losses 2", "", later, ""}},
		{"a kept image of a registry that is not allowed", wanted(keep, "a"), []report{done}, stored(), bounds{Registries: imagepull.Registries{"reg.io"}}, 9, step{"a r1 Succeeded 0", "", later, ""}},
		{"a registry that is not allowed", wanted(policy{Retries: 3}, "a"), nil, stored(), bounds{Registries: imagepull.Registries{"reg.io"}}, 9, step{"a r1 Failed 0 (a:latest: registry docker.io; allow the registry, or use an allowed registry)", "", later, "RegistryNotAllowed"}},
		{"a registry that is not allowed any more", wanted(policy{Retries: 3}, "a"), []report{pulling}, with(stored(), running), bounds{Registries: imagepull.Registries{"reg.io"}}, 9, step{"a r1 Failed 1 (a:latest: registry docker.io; allow the registry, or use an allowed registry)", "Stop a r1", later, "RegistryNotAllowed"}},
		{"the window is closed", wanted(policy{}, "a", "b"), []report{pulling}, with(stored(), running), bounds{Pulls: 2, Window: imagepull.Window{Opens: at(30).UTC().Sub(at(0).UTC().Truncate(24 * time.Hour)), Lasts: time.Hour}}, 27, step{"a r1 Pulling 1, b r1 Waiting 0", "", 3 * time.Second, "PullAwaited WindowClosed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bounds.Registries == nil {
				c.bounds.Registries = imagepull.Registries{"*"}
			}
			got := compact(imagepull.Next(c.wants, c.before, c.seen, c.bounds, at(c.now)))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// sized gives images an expected size.
func sized(wants []want, bytes ...uint64) []want {
	for i := range bytes {
		wants[i].Bytes = bytes[i]
	}
	return wants
}

func TestNextBytes(t *testing.T) {
	running := pull{Image: ref("a"), Round: 1}
	pulling := report{Image: ref("a"), Round: 1, Phase: imagepull.Pulling, Attempts: 1, Started: at(0)}
	for _, c := range []struct {
		name   string
		wants  []want
		before []report
		seen   observed
		bounds bounds
		want   step
	}{
		{"room for two of three", sized(wanted(policy{}, "a", "b", "c"), 60, 40, 1), nil, stored(), bounds{Pulls: 9, Bytes: 100}, step{"a r1 Pulling 1, b r1 Pulling 1, c r1 Waiting 0", "Start a r1 10m0s, Start b r1 10m0s", soon, "BytesReached"}},
		{"a smaller image goes first", sized(wanted(policy{}, "a", "b"), 101, 40), nil, stored(), bounds{Pulls: 9, Bytes: 100}, step{"a r1 Waiting 0, b r1 Pulling 1", "Start b r1 10m0s", soon, "BytesReached"}},
		{"wanted images count, others do not", wanted(policy{}, "a", "b"), nil, stored("a", "z"), bounds{Pulls: 9, Bytes: 101}, step{"a r1 Succeeded 0 present, b r1 Pulling 1", "Start b r1 10m0s", soon, ""}},
		{"an image of unknown size needs some room", wanted(policy{}, "a", "b"), nil, stored("a"), bounds{Pulls: 9, Bytes: 100}, step{"a r1 Succeeded 0 present, b r1 Waiting 0", "", later, "BytesReached"}},
		{"pulls in progress count", sized(wanted(policy{}, "a", "b"), 60, 41), []report{pulling}, with(stored(), running), bounds{Pulls: 9, Bytes: 100}, step{"a r1 Pulling 1, b r1 Waiting 0", "", soon, "PullAwaited BytesReached"}},
		{"a present image is pulled again at the limit", wanted(policy{Always: true}, "a"), nil, stored("a"), bounds{Bytes: 100}, step{"a r1 Pulling 1 present", "Start a r1 10m0s", soon, ""}},
		{"the size of an earlier pull counts", wanted(policy{}, "a"), []report{{Image: ref("a"), Bytes: 101}}, stored(), bounds{Bytes: 100}, step{"a r1 Waiting 0", "", later, "BytesReached"}},
		{"the disk has room", sized(wanted(policy{}, "a", "b"), 50, 1), nil, free(stored(), 150), bounds{Pulls: 9, Floor: 100}, step{"a r1 Pulling 1, b r1 Waiting 0", "Start a r1 10m0s", soon, "DiskBelowFloor"}},
		{"the disk is at the floor", wanted(policy{}, "a"), nil, free(stored(), 100), bounds{Floor: 100}, step{"a r1 Waiting 0", "", later, "DiskBelowFloor"}},
		{"the disk is below the floor", wanted(policy{}, "a"), nil, free(stored(), 0), bounds{Floor: 100}, step{"a r1 Waiting 0", "", later, "DiskBelowFloor"}},
		{"the free disk is unknown", wanted(policy{}, "a"), nil, stored(), bounds{Floor: 100}, step{"a r1 Waiting 0", "", soon, "DiskBelowFloor"}},
		{"the free disk is unknown, and nobody asks", wanted(policy{}, "a"), nil, stored(), bounds{}, step{"a r1 Pulling 1", "Start a r1 10m0s", soon, ""}},
		{"a full disk without floor", wanted(policy{}, "a"), nil, free(stored(), 0), bounds{}, step{"a r1 Pulling 1", "Start a r1 10m0s", soon, ""}},
		{"below the floor pulls are stopped", wanted(policy{Retries: 1}, "a"), []report{pulling}, free(with(stored(), running), 99), bounds{Floor: 100}, step{"a r1 Waiting 1 again 1s (a:latest: 99 bytes are free, and 100 must stay free; free disk on the Node)", "Stop a r1", time.Second, "PullRetried"}},
		{"below the floor in the last attempt", wanted(policy{}, "a"), []report{pulling}, free(with(stored(), running), 99), bounds{Floor: 100}, step{"a r1 Failed 1 (a:latest: 99 bytes are free, and 100 must stay free; free disk on the Node)", "Stop a r1", later, "DiskBelowFloor"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.bounds.Registries = imagepull.Registries{"*"}
			got := compact(imagepull.Next(c.wants, c.before, c.seen, c.bounds, at(0)))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextKeepsAnswers(t *testing.T) {
	a := ref("a")
	for _, phase := range []imagepull.Phase{imagepull.Succeeded, imagepull.Failed} {
		before := []report{{Image: a, Round: 1, Phase: phase, Ended: at(0), Message: "x"}}
		s := imagepull.Next(wanted(policy{Keep: true}, "a"), before, stored(), bounds{Registries: imagepull.Registries{"*"}}, at(5))
		expected := []answer{{Round: 1, Phase: phase, Ended: at(0), Message: "x"}}
		if diff := cmp.Diff(expected, s.Reports[0].Answers); diff != "" || s.Reports[0].Phase != imagepull.Waiting {
			t.Errorf("%s: %s (-want +got):\n%s", phase, s.Reports[0].Phase, diff)
		}
	}
}

func TestNextRecordsTheImage(t *testing.T) {
	s := imagepull.Next(wanted(policy{}, "a"), nil, stored("a"), bounds{Registries: imagepull.Registries{"*"}}, at(5))
	expected := []report{{Image: ref("a"), Round: 1, Phase: imagepull.Succeeded, Present: true, ID: "sha256:a", Bytes: 100, Ended: at(5)}}
	if diff := cmp.Diff(expected, s.Reports, references()); diff != "" {
		t.Errorf("ND-18 (-want +got):\n%s", diff)
	}
}
