package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/daemon"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

func TestImageFlags(t *testing.T) {
	all := imagepull.Registries{"*"}
	none := imageFlags{workers: -1, registries: all, bytes: "0", floor: "0"}
	with := func(change func(*imageFlags)) imageFlags {
		f := none
		change(&f)
		return f
	}
	for _, test := range []struct {
		name  string
		flags imageFlags
		want  imagepull.Bounds
		err   string
	}{
		{name: "defaults", flags: none, want: imagepull.Bounds{Pulls: imagepull.MostImages, Registries: all}},
		{
			name: "ND-12 a limit for the Node", flags: with(func(f *imageFlags) { f.workers = 2 }),
			want: imagepull.Bounds{Pulls: 2, Registries: all},
		},
		{
			name: "bytes and floor", flags: with(func(f *imageFlags) { f.bytes, f.floor, f.root = "2Gi", "1k", "/host" }),
			want: imagepull.Bounds{Pulls: imagepull.MostImages, Registries: all, Bytes: 2 << 30, Floor: 1000},
		},
		{
			name: "a window over midnight", flags: with(func(f *imageFlags) { f.window = "22:30-06:00" }),
			want: imagepull.Bounds{
				Pulls: imagepull.MostImages, Registries: all,
				Window: imagepull.Window{Opens: 22*time.Hour + 30*time.Minute, Lasts: 7*time.Hour + 30*time.Minute, Location: time.UTC},
			},
		},
		{name: "not a size", flags: with(func(f *imageFlags) { f.bytes = "much" }), err: `--image-bytes="much" is not a number of bytes, such as 10Gi`},
		{name: "a negative size", flags: with(func(f *imageFlags) { f.floor = "-1" }), err: `--image-disk-floor="-1" is not a number of bytes, such as 10Gi`},
		{
			name: "a floor of an unknown disk", flags: with(func(f *imageFlags) { f.floor = "1Gi" }),
			err: "--image-disk-floor needs --image-root: mount the Node's file system of images, and name the place",
		},
		{
			name: "an empty window", flags: with(func(f *imageFlags) { f.window = "06:00-06:00" }),
			err: `--image-window="06:00-06:00" is not a time of the day, such as 22:00-06:00: begin and end are the same`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.flags.read()
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != test.err {
				t.Fatalf("error %q, want %q", text, test.err)
			}
			if diff := cmp.Diff(daemon.Images{Bounds: test.want, Root: test.flags.root}, got, cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })); diff != "" && err == nil {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, window := range []string{"22:00", "22-06", "25:00-06:00", "22:00-06:00 Nowhere/Land"} {
		if _, err := windowOf(window); err == nil {
			t.Errorf("%q is a window", window)
		}
	}
}
