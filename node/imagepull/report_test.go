package imagepull_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

func TestMerge(t *testing.T) {
	a, b := ref("a"), ref("b")
	wants := []want{{Image: a, Round: 2}, {Image: b}}
	succeeded := report{Image: a, Round: 1, Phase: imagepull.Succeeded, Present: true, Ended: at(5)}
	pulling := report{Image: a, Round: 2, Phase: imagepull.Pulling, Attempts: 1, Started: at(6)}
	for _, c := range []struct {
		name              string
		recorded, reports []report
		want              []report
		why               string
	}{
		{"ND-20 nothing", nil, nil, nil, ""},
		{"ND-20 the order is the wants'", nil, []report{{Image: b, Phase: imagepull.Waiting}, pulling}, []report{pulling, {Image: b, Phase: imagepull.Waiting}}, ""},
		{"ND-20 a record stays without report", []report{pulling}, nil, []report{pulling}, ""},
		{
			"IP-6 the answer of an earlier round stays",
			[]report{succeeded},
			[]report{pulling},
			[]report{{Image: a, Round: 2, Phase: imagepull.Pulling, Attempts: 1, Started: at(6), Answers: []answer{{Round: 1, Phase: imagepull.Succeeded, Ended: at(5)}}}},
			"",
		},
		{
			"IP-6 an answer that is taken back stays",
			[]report{succeeded},
			[]report{{Image: a, Round: 1, Phase: imagepull.Waiting}},
			[]report{{Image: a, Round: 1, Phase: imagepull.Waiting, Answers: []answer{{Round: 1, Phase: imagepull.Succeeded, Ended: at(5)}}}},
			"",
		},
		{"IP-6 a repeated answer", []report{succeeded}, []report{succeeded}, []report{succeeded}, ""},
		{"IP-35 an unwanted image is dropped from the record", []report{{Image: ref("c"), Phase: imagepull.Waiting}}, nil, nil, ""},
		{"IP-35 an unwanted image", nil, []report{{Image: ref("c"), Phase: imagepull.Waiting}}, nil, "ReportRefused: c:latest: nobody wants the image"},
		{"IP-35 no image", nil, []report{{Phase: imagepull.Waiting}}, nil, "ReportRefused: nobody wants the image"},
		{"a round in the future", nil, []report{{Image: a, Round: 3, Phase: imagepull.Succeeded}}, nil, "ReportRefused: a:latest: round 3 has not begun yet"},
		{"a negative round", nil, []report{{Image: a, Round: -1, Phase: imagepull.Succeeded}}, nil, "ReportRefused: a:latest: round -1 has not begun yet"},
		{"a round before the record", []report{pulling}, []report{succeeded}, []report{pulling}, "ReportRefused: a:latest: a later round is recorded already"},
		{"a phase that nobody knows", []report{pulling}, []report{{Image: a, Round: 2, Phase: "Done"}}, []report{pulling}, "ReportRefused: a:latest: the phase is unknown"},
		{"no phase", []report{{Image: a, Round: 2}}, nil, nil, ""},
		{"two reports", nil, []report{pulling, succeeded}, []report{pulling}, "ReportRefused: a:latest: a second report about the image"},
		{
			"numbers and times are limited",
			nil,
			[]report{{Image: a, Phase: imagepull.Failed, Attempts: -1, Losses: math.MaxInt, Started: at(200), Ended: at(200), Again: at(1_000_000), ID: "x\ny", Bytes: math.MaxUint64, Message: "a\x1b[2J\nb"}},
			[]report{{Image: a, Phase: imagepull.Failed, Losses: 1 << 20, Started: at(100), Ended: at(100), Again: at(100 + 4*3600), Message: "a [2J b"}},
			"",
		},
		{
			"answers are checked",
			nil,
			[]report{{Image: a, Round: 1, Phase: imagepull.Waiting, Answers: []answer{
				{Round: 2, Phase: imagepull.Succeeded},
				{Round: -1, Phase: imagepull.Succeeded},
				{Round: 1, Phase: imagepull.Waiting},
				{Round: 0, Phase: imagepull.Failed, Message: "old"},
				{Round: 1, Phase: imagepull.Failed, Message: "new\n", Ended: at(999)},
			}}},
			[]report{{Image: a, Round: 1, Phase: imagepull.Waiting, Answers: []answer{{Round: 1, Phase: imagepull.Failed, Message: "new ", Ended: at(100)}}}},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, why := imagepull.Merge(wants, c.recorded, c.reports, at(100))
			if diff := cmp.Diff(c.want, got, references()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if why.String() != c.why {
				t.Errorf("why: %q, want %q", why, c.why)
			}
		})
	}
}

func TestMergeIsBounded(t *testing.T) {
	var many []report
	for i := range 5000 {
		many = append(many, report{Image: ref(fmt.Sprintf("a%d", i)), Message: "x"})
	}
	if got, why := imagepull.Merge(nil, many, many, at(0)); len(got) != 0 || len(why) != 16 {
		t.Errorf("%d reports, %d reasons", len(got), len(why))
	}
	long := report{Image: ref("a"), Phase: imagepull.Failed, Message: strings.Repeat("ä", 5000), ID: strings.Repeat("a", 513)}
	got, _ := imagepull.Merge([]want{{Image: ref("a")}}, nil, []report{long}, at(0))
	if m := got[0].Message; len(m) > 512 || len(m) < 500 || !utf8.ValidString(m) || got[0].ID != "" {
		t.Errorf("%d bytes, ID of %d bytes", len(m), len(got[0].ID))
	}
}

// FuzzMerge: a forged report is within the limits after Merge, and a second Merge changes nothing.
func FuzzMerge(f *testing.F) {
	f.Add(int64(2), int64(1), "Succeeded", 3, 4, int64(7), int64(-7), int64(1<<60), uint64(9), "id", "message")
	f.Add(int64(0), int64(-1), "", -1, 1<<40, int64(0), int64(0), int64(0), uint64(1<<63), "\x00", "\xff\xfe\u0085")
	f.Add(int64(5), int64(5), "Waiting", 0, 0, int64(9), int64(9), int64(9), uint64(0), strings.Repeat("x", 600), strings.Repeat("\xf0\x9f", 600))
	f.Fuzz(func(t *testing.T, round, other int64, phase string, attempts, losses int, started, ended, again int64, bytes uint64, id, message string) {
		wants := []want{{Image: ref("a"), Round: 5, Claims: []claim{{Owner: "x", Round: 5, Since: at(0)}}}}
		forged := report{
			Image: ref("a"), Round: round, Phase: imagepull.Phase(phase), Attempts: attempts, Losses: losses, Bytes: bytes, ID: id, Message: message,
			Started: time.Unix(started, 0), Ended: time.Unix(ended, 0), Again: time.Unix(again, 0),
			Answers: []answer{{Round: other, Phase: imagepull.Phase(phase), Message: message, Ended: time.Unix(again, 0)}},
		}
		got, why := imagepull.Merge(wants, []report{forged}, []report{forged, forged}, at(100))
		if len(got) > 1 || len(got) == 1 && (got[0].Round < 0 || got[0].Round > 5) || len(got) == 0 && len(why) == 0 {
			t.Fatalf("%+v %v", got, why)
		}
		for _, r := range got {
			if len(r.Message) > 512 || !utf8.ValidString(r.Message) || strings.ContainsAny(r.Message, "\n\r\x00\x1b") || len(r.ID) > 512 || r.Bytes > 1<<50 {
				t.Errorf("%+v", r)
			}
			if r.Attempts < 0 || r.Losses < 0 || r.Started.After(at(100)) || r.Ended.After(at(100)) || len(r.Answers) > 2 {
				t.Errorf("%+v", r)
			}
		}
		again2, _ := imagepull.Merge(wants, nil, got, at(100))
		if diff := cmp.Diff(got, again2, references()); diff != "" {
			t.Errorf("twice (-once +twice):\n%s", diff)
		}
		imagepull.Judge(wants, got, ref("a"), "x", at(100))
		step := imagepull.Next(wants, got, observed{Listed: true}, bounds{Registries: imagepull.Registries{"*"}}, at(100))
		if step.After <= 0 {
			t.Errorf("nobody looks again: %+v", step)
		}
	})
}

func TestJudge(t *testing.T) {
	a := ref("a")
	for _, c := range []struct {
		name     string
		round    int64 // of the claim; the Want's round is 2
		deadline *time.Duration
		reports  []report
		now      int
		want     imagepull.State
		after    time.Duration
		why      string
	}{
		{"IP-9 no report", 2, nil, nil, 0, imagepull.Active, 10 * time.Minute, ""},
		{"IP-9 another round", 2, nil, []report{{Image: a, Round: 1, Phase: imagepull.Succeeded}}, 100, imagepull.Active, 500 * time.Second, ""},
		{"IP-9 succeeded", 2, nil, []report{{Image: a, Round: 2, Phase: imagepull.Succeeded}}, 0, imagepull.Done, 0, ""},
		{"IP-9 failed", 2, nil, []report{{Image: a, Round: 2, Phase: imagepull.Failed, Message: "no such\nimage"}}, 0, imagepull.Broken, 0, "PullFailed: a:latest: no such image; see the messages of the Node's agent"},
		{"IP-9 in progress", 2, nil, []report{{Image: a, Round: 2, Phase: imagepull.Pulling}}, 90_000, imagepull.Active, 0, ""},
		{"IP-6 an earlier claim keeps the answer", 1, nil, []report{{Image: a, Round: 1, Phase: imagepull.Succeeded}}, 0, imagepull.Done, 0, ""},
		{"IP-6 during a later round", 1, nil, []report{{Image: a, Round: 2, Phase: imagepull.Pulling, Answers: []answer{{Round: 1, Phase: imagepull.Succeeded}}}}, 0, imagepull.Done, 0, ""},
		{"IP-6 after a later failure", 1, nil, []report{{Image: a, Round: 2, Phase: imagepull.Failed, Answers: []answer{{Round: 1, Phase: imagepull.Succeeded}}}}, 0, imagepull.Done, 0, ""},
		{"IP-6 a later claim waits", 2, nil, []report{{Image: a, Round: 2, Phase: imagepull.Pulling, Answers: []answer{{Round: 1, Phase: imagepull.Succeeded}}}}, 0, imagepull.Active, 0, ""},
		{"IP-6 the newest failure is told", 0, nil, []report{{Image: a, Round: 2, Phase: imagepull.Failed, Message: "new", Answers: []answer{{Round: 1, Phase: imagepull.Failed, Message: "old"}}}}, 0, imagepull.Broken, 0, "PullFailed: a:latest: new; see the messages of the Node's agent"},
		{"IP-34 silent", 2, nil, nil, 600, imagepull.Silent, 0, "AgentSilentOnNode: a:latest: no report about the claim within 10m0s; see whether the agent of the Node runs"},
		{"IP-34 a report before the response time ends is enough", 2, nil, []report{{Image: a, Round: 2, Phase: imagepull.Waiting}}, 600, imagepull.Active, 0, ""},
		{"IP-34 before the deadline", 2, ptr.To(time.Hour), []report{{Image: a, Round: 2, Phase: imagepull.Pulling}}, 4199, imagepull.Active, time.Second, ""},
		{"IP-34 after the deadline", 2, ptr.To(time.Hour), []report{{Image: a, Round: 2, Phase: imagepull.Pulling}}, 4200, imagepull.Silent, 0, "AgentSilentOnNode: a:latest: no end of the pull within 1h0m0s; see whether the agent of the Node runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wants := []want{{Image: a, Round: 2, Claims: []claim{{Owner: "other"}, {Owner: "x", Round: c.round, Since: at(0), Policy: policy{Deadline: c.deadline}}}}}
			got := imagepull.Judge(wants, c.reports, a, "x", at(c.now))
			why := ""
			if got.Why.Code != "" {
				why = got.Why.String()
			}
			if got.State != c.want || got.After != c.after || why != c.why {
				t.Errorf("%s %v %q", got.State, got.After, why)
			}
		})
	}
	for name, wants := range map[string][]want{
		"IP-9 no image": nil, "IP-9 another image": {{Image: ref("b"), Claims: []claim{{Owner: "x"}}}}, "IP-9 another owner": {{Image: a, Claims: []claim{{Owner: "y"}}}},
	} {
		if got := imagepull.Judge(wants, nil, a, "x", at(0)); got != (imagepull.Standing{State: imagepull.Unclaimed}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCondition(t *testing.T) {
	wants := []want{{Image: ref("a")}, {Image: ref("b")}, {Image: ref("c")}, {Image: ref("d")}, {Image: ref("e")}}
	for name, c := range map[string]struct {
		wants   []want
		reports []report
		want    metav1.Condition
	}{
		"nothing is wanted":     {nil, nil, metav1.Condition{Status: metav1.ConditionTrue, Reason: "ImagesPresent"}},
		"present":               {wants[:1], []report{{Image: ref("a"), Present: true}}, metav1.Condition{Status: metav1.ConditionTrue, Reason: "ImagesPresent"}},
		"deleted after success": {wants[:1], []report{{Image: ref("a"), Phase: imagepull.Succeeded}}, metav1.Condition{Status: metav1.ConditionFalse, Reason: "ImageAbsent", Message: "not present: a:latest"}},
		"never reported":        {wants[:2], []report{{Image: ref("a"), Present: true}}, metav1.Condition{Status: metav1.ConditionUnknown, Reason: "ImageAbsent", Message: "not present: b:latest"}},
		"known to be absent":    {wants[:2], []report{{Image: ref("b")}}, metav1.Condition{Status: metav1.ConditionFalse, Reason: "ImageAbsent", Message: "not present: a:latest, b:latest"}},
		"many":                  {wants, []report{{Image: ref("a")}}, metav1.Condition{Status: metav1.ConditionFalse, Reason: "ImageAbsent", Message: "not present: a:latest, b:latest, c:latest and 2 more"}},
	} {
		c.want.Type, c.want.ObservedGeneration = "ImagesPresent", 7
		if diff := cmp.Diff(c.want, imagepull.Condition("ImagesPresent", 7, c.wants, c.reports)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
