package imagepull_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

type (
	want     = imagepull.Want
	claim    = imagepull.Claim
	policy   = imagepull.Policy
	report   = imagepull.Report
	answer   = imagepull.Answer
	image    = imagepull.Image
	pull     = imagepull.Pull
	observed = imagepull.Observed
	bounds   = imagepull.Bounds
)

func at(second int) time.Time { return time.Unix(1_000_000+int64(second), 0) }

// references compares References by their names.
func references() cmp.Option {
	return cmp.Comparer(func(a, b imagepull.Reference) bool { return a == b })
}

// short returns wants as text: image, round, and the claims with their rounds.
func short(wants []want) string {
	var out []string
	for _, w := range wants {
		s := fmt.Sprintf("%s r%d", w.Image, w.Round)
		for _, c := range w.Claims {
			s += fmt.Sprintf(" %s%d", c.Owner, c.Round)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestAddClaim(t *testing.T) {
	a, b := ref("a"), ref("b")
	byX := []want{{Image: a, Round: 3, Claims: []claim{{Owner: "x", Round: 3, Since: at(0)}}}}
	for _, c := range []struct {
		name    string
		wants   []want
		reports []report
		claim   claim
		want    string
	}{
		{"IP-4 the first claim", nil, nil, claim{Owner: "x"}, "a:latest r0 x0"},
		{"IP-4 the first claim after an old report", nil, []report{{Image: a, Round: 4}}, claim{Owner: "x"}, "a:latest r5 x5"},
		{"IP-4 a report that cannot be", nil, []report{{Image: a, Round: math.MaxInt64}}, claim{Owner: "x"}, "a:latest r0 x0"},
		{"IP-4 a negative report", nil, []report{{Image: a, Round: -7}}, claim{Owner: "x"}, "a:latest r0 x0"},
		{"IP-4 the order is by name", []want{{Image: b, Claims: []claim{{Owner: "y"}}}}, nil, claim{Owner: "x"}, "a:latest r0 x0, b:latest r0 y0"},
		{"IP-4 a first claim with Always", nil, nil, claim{Owner: "x", Policy: policy{Always: true}}, "a:latest r0 x0"},
		{"IP-5 a pull in progress is shared", byX, []report{{Image: a, Round: 3, Phase: imagepull.Pulling}}, claim{Owner: "y"}, "a:latest r3 x3 y3"},
		{"IP-5 a pull that nobody reported is shared", byX, nil, claim{Owner: "y"}, "a:latest r3 x3 y3"},
		{"IP-5 a present image is shared", byX, []report{{Image: a, Round: 3, Phase: imagepull.Succeeded, Present: true}}, claim{Owner: "y"}, "a:latest r3 x3 y3"},
		{"IP-5 a deleted image is pulled again", byX, []report{{Image: a, Round: 3, Phase: imagepull.Succeeded}}, claim{Owner: "y"}, "a:latest r4 x3 y4"},
		{"IP-5 a failed image is pulled again", byX, []report{{Image: a, Round: 3, Phase: imagepull.Failed}}, claim{Owner: "y"}, "a:latest r4 x3 y4"},
		{"IP-5 an old failure says nothing", byX, []report{{Image: a, Round: 2, Phase: imagepull.Failed}}, claim{Owner: "y"}, "a:latest r3 x3 y3"},
		{"IP-5 Always pulls again", byX, nil, claim{Owner: "y", Policy: policy{Always: true}}, "a:latest r4 x3 y4"},
		{"IP-64 the same claim", byX, []report{{Image: a, Round: 3, Phase: imagepull.Failed}}, claim{Owner: "x"}, "a:latest r3 x3"},
		{"IP-64 the same claim, now with Always", byX, nil, claim{Owner: "x", Policy: policy{Always: true}}, "a:latest r4 x4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := short(c.wants)
			got, err := imagepull.AddClaim(c.wants, c.reports, a, c.claim)
			if diff := cmp.Diff(c.want, short(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if short(c.wants) != before {
				t.Error("the wants were modified")
			}
		})
	}
}

func TestAddClaimChangesPolicy(t *testing.T) {
	wants, err := imagepull.AddClaim(nil, nil, ref("a"), claim{Owner: "x", Since: at(1), Policy: policy{Always: true}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := imagepull.AddClaim(wants, nil, ref("a"), claim{Owner: "x", Since: at(9), Policy: policy{Always: true, Timeout: 5}})
	expected := []want{{Image: ref("a"), Claims: []claim{{Owner: "x", Since: at(1), Policy: policy{Always: true, Timeout: 5}}}}}
	if diff := cmp.Diff(expected, got, references()); diff != "" || err != nil {
		t.Errorf("IP-64: %v (-want +got):\n%s", err, diff)
	}
}

func TestAddClaimRefuses(t *testing.T) {
	if _, err := imagepull.AddClaim(nil, nil, imagepull.Reference{}, claim{Owner: "x"}); !errors.Is(err, imagepull.InvalidImage) {
		t.Error(err)
	}
	var images, claims []want
	var err error
	for i := range imagepull.MostImages {
		images = append(images, want{Image: ref(fmt.Sprintf("a%d", i)), Claims: []claim{{Owner: "x"}}})
	}
	if got, err := imagepull.AddClaim(images, nil, ref("b"), claim{Owner: "x"}); len(got) != len(images) || !errors.Is(err, imagepull.TooManyImages) {
		t.Error(len(got), err)
	}
	for i := range imagepull.MostClaims {
		if claims, err = imagepull.AddClaim(claims, nil, ref("a"), claim{Owner: imagepull.Owner(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := imagepull.AddClaim(claims, nil, ref("a"), claim{Owner: "x"}); len(got[0].Claims) != imagepull.MostClaims || !errors.Is(err, imagepull.TooManyImages) {
		t.Error(len(got[0].Claims), err)
	}
}

func TestPolicy(t *testing.T) {
	patient := policy{Timeout: 20 * time.Minute, Retries: 1, Deadline: ptr.To(time.Hour)}
	for _, c := range []struct {
		name   string
		round  int64
		claims []claim
		want   policy
	}{
		{"no claim", 0, nil, policy{}},
		{"defaults", 0, []claim{{Policy: policy{Retries: -1}}}, policy{Timeout: 10 * time.Minute, Retries: 3}},
		{"IP-5 the most patient values", 0, []claim{{Policy: patient}, {Policy: policy{Timeout: time.Second, Retries: 2, Deadline: ptr.To(time.Minute)}}}, policy{Timeout: 20 * time.Minute, Retries: 2, Deadline: ptr.To(time.Hour)}},
		{"IP-5 no deadline is the most patient", 0, []claim{{Policy: patient}, {Policy: policy{}}}, policy{Timeout: 20 * time.Minute, Retries: 1}},
		{"Always of the present round", 1, []claim{{Round: 0, Policy: policy{}}, {Round: 1, Policy: policy{Always: true}}}, policy{Timeout: 10 * time.Minute, Always: true}},
		{"Always of an earlier round", 1, []claim{{Round: 0, Policy: policy{Always: true}}, {Round: 1, Policy: policy{Keep: true}}}, policy{Timeout: 10 * time.Minute, Keep: true}},
	} {
		w := want{Round: c.round, Claims: c.claims}
		if diff := cmp.Diff(c.want, w.Policy()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestRelease(t *testing.T) {
	wants := []want{
		{Image: ref("a"), Claims: []claim{{Owner: "x"}, {Owner: "y"}}},
		{Image: ref("b"), Claims: []claim{{Owner: "x"}}},
		{Image: ref("c"), Claims: []claim{{Owner: "y"}}},
	}
	for name, c := range map[string]struct {
		kept []imagepull.Reference
		want string
	}{
		"IP-13 all claims of the owner": {nil, "a:latest r0 y0, c:latest r0 y0"},
		"IP-64 the old image":           {[]imagepull.Reference{ref("b")}, "a:latest r0 y0, b:latest r0 x0, c:latest r0 y0"},
	} {
		if got := short(imagepull.Release(wants, "x", c.kept...)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if len(wants[0].Claims) != 2 {
		t.Error("the wants were modified")
	}
}

func TestSweep(t *testing.T) {
	a := ref("a")
	minute := &policy{TTL: ptr.To(time.Minute)}
	for _, c := range []struct {
		name    string
		claims  []claim
		reports []report
		now     int
		want    string
		after   time.Duration
	}{
		{"IP-33 an owner that does not exist", []claim{{Owner: "gone"}, {Owner: "x"}}, nil, 0, "a:latest r0 x0", 0},
		{"IP-33 the last owner", []claim{{Owner: "gone"}}, nil, 0, "", 0},
		{"IP-33 the TTL has not passed", []claim{{Owner: "x", Policy: *minute}}, []report{{Image: a, Phase: imagepull.Failed, Ended: at(10)}}, 30, "a:latest r0 x0", 40 * time.Second},
		{"IP-33 the TTL has passed", []claim{{Owner: "x", Policy: *minute}}, []report{{Image: a, Phase: imagepull.Succeeded, Ended: at(10)}}, 70, "", 0},
		{"IP-33 each claim has a TTL", []claim{{Owner: "x", Policy: *minute}, {Owner: "y"}}, []report{{Image: a, Phase: imagepull.Succeeded, Ended: at(10)}}, 70, "a:latest r0 y0", 0},
		{"IP-33 no answer, no end", []claim{{Owner: "x", Policy: *minute}}, []report{{Image: a, Phase: imagepull.Pulling}}, 9000, "a:latest r0 x0", 0},
		{"IP-33 an answer of an earlier round", []claim{{Owner: "x", Round: 1, Policy: *minute}}, []report{{Image: a, Phase: imagepull.Succeeded, Ended: at(10)}}, 9000, "a:latest r0 x1", 0},
		{"IP-33 an end before the claim", []claim{{Owner: "x", Since: at(100), Policy: *minute}}, []report{{Image: a, Phase: imagepull.Succeeded}}, 130, "a:latest r0 x0", 30 * time.Second},
		{"IP-34 no agent has answered", []claim{{Owner: "x", Since: at(0), Policy: *minute}}, nil, 659, "a:latest r0 x0", time.Second},
		{"IP-34 no agent has answered, and the TTL has passed", []claim{{Owner: "x", Since: at(0), Policy: *minute}}, nil, 660, "", 0},
		{
			"IP-34 no end at the deadline",
			[]claim{{Owner: "x", Since: at(0), Policy: policy{TTL: minute.TTL, Deadline: ptr.To(time.Minute)}}},
			[]report{{Image: a, Phase: imagepull.Pulling}},
			720, "", 0,
		},
		{"IP-34 a claim without TTL", []claim{{Owner: "x", Since: at(0)}}, nil, 9000, "a:latest r0 x0", 0},
		{"IP-33 an end in the future", []claim{{Owner: "x", Policy: *minute}}, []report{{Image: a, Phase: imagepull.Succeeded, Ended: at(100_000)}}, 130, "a:latest r0 x0", time.Minute},
	} {
		got, after := imagepull.Sweep([]want{{Image: a, Claims: c.claims}}, c.reports, func(o imagepull.Owner) bool { return o != "gone" }, at(c.now))
		if short(got) != c.want || after != c.after {
			t.Errorf("%s: %s, %v", c.name, short(got), after)
		}
	}
}

func TestRetry(t *testing.T) {
	type result struct {
		After time.Duration
		Over  bool
	}
	hour := policy{Retries: 100, Deadline: ptr.To(time.Hour)}
	for _, c := range []struct {
		name     string
		policy   policy
		attempts int
		now      int
		want     result
	}{
		{"ND-13 the first pause", policy{Retries: 3}, 1, 0, result{time.Second, false}},
		{"ND-13 the second pause", policy{Retries: 3}, 2, 0, result{2 * time.Second, false}},
		{"ND-13 the third pause", policy{Retries: 3}, 3, 0, result{4 * time.Second, false}},
		{"ND-13 four attempts", policy{Retries: 3}, 4, 0, result{0, true}},
		{"ND-13 the longest pause", policy{Retries: 99}, 9, 0, result{30 * time.Second, false}},
		{"ND-13 a negative limit is 3", policy{Retries: -5}, 3, 0, result{4 * time.Second, false}},
		{"ND-13 a negative limit is no more than 3", policy{Retries: -5}, 4, 0, result{0, true}},
		{"ND-13 no retry", policy{}, 1, 0, result{0, true}},
		{"ND-13 before the deadline", hour, 1, 3598, result{time.Second, false}},
		{"ND-13 the deadline passes in the pause", hour, 1, 3599, result{time.Second, true}},
	} {
		var got result
		if got.After, got.Over = imagepull.Retry(c.policy, c.attempts, at(0), at(c.now)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		policy  policy
		started time.Time
		want    time.Duration
	}{
		"ND-13 the default":         {policy{}, at(0), 10 * time.Minute},
		"ND-13 the timeout":         {policy{Timeout: time.Minute}, at(0), time.Minute},
		"ND-13 the deadline":        {policy{Timeout: time.Minute, Deadline: ptr.To(130 * time.Second)}, at(0), 30 * time.Second},
		"ND-13 not begun":           {policy{Timeout: time.Minute, Deadline: ptr.To(50 * time.Second)}, time.Time{}, 50 * time.Second},
		"ND-13 after the deadline":  {policy{Deadline: ptr.To(time.Minute)}, at(0), -40 * time.Second},
		"IP-7 longer than the rest": {policy{Timeout: 3 * time.Hour}, at(0), 3 * time.Hour},
	} {
		if got := c.policy.Limit(c.started, at(100)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWindow(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	night := imagepull.Window{Opens: 22 * time.Hour, Lasts: 4 * time.Hour, Location: berlin}
	for name, c := range map[string]struct {
		window imagepull.Window
		now    string
		want   time.Duration
	}{
		"always open":               {imagepull.Window{}, "2026-03-01T12:00:00Z", 0},
		"open for days":             {imagepull.Window{Opens: time.Hour, Lasts: 24 * time.Hour}, "2026-03-01T00:00:00Z", 0},
		"before":                    {night, "2026-03-01T20:59:59Z", time.Second},
		"at the opening":            {night, "2026-03-01T21:00:00Z", 0},
		"after midnight":            {night, "2026-03-02T00:59:59Z", 0},
		"at the end":                {night, "2026-03-02T01:00:00Z", 20 * time.Hour},
		"without a zone":            {imagepull.Window{Opens: time.Hour, Lasts: time.Hour}, "2026-03-01T03:00:00Z", 22 * time.Hour},
		"not a time of the day":     {imagepull.Window{Opens: 49 * time.Hour, Lasts: time.Hour}, "2026-03-01T01:30:00Z", 0},
		"negative is a time before": {imagepull.Window{Opens: -time.Hour, Lasts: time.Hour}, "2026-03-01T23:30:00Z", 0},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.window.Wait(now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
