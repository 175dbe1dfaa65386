package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/examples/daemon"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// imageFlags are the command line's flags for image pulls.
type imageFlags struct {
	workers                      int
	registries                   []string
	bytes, floor, window         string
	root, providers, pluginsPath string
}

func (f *imageFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.workers, "max-workers-for-pull-image", -1, "images pulled at the same time; 0 or less for no limit")
	fs.StringSliceVar(&f.registries, "image-registries", []string{"*"}, "registries from which images may be pulled: a host, a host with the begin of a path, *.domain, or * for all")
	fs.StringVar(&f.bytes, "image-bytes", "0", "size of all wanted images together, such as 50Gi; 0 for no limit")
	fs.StringVar(&f.floor, "image-disk-floor", "0", "free disk that pulls leave, such as 10Gi; 0 for none. Needs --image-root")
	fs.StringVar(&f.root, "image-root", "", "place of the Node's /, for the free disk")
	fs.StringVar(&f.window, "image-window", "", "time of the day in which pulls begin, such as 22:00-06:00 or \"22:00-06:00 Europe/Berlin\"; empty for always")
	fs.StringVar(&f.providers, "plugin-config-file", "/kruise/CredentialProviderPlugin.yaml", "file with the kubelet's configuration of credential providers; may be missing")
	fs.StringVar(&f.pluginsPath, "plugin-bin-dir", "/kruise/plugins", "directory with the programs of the credential providers")
}

// read returns the settings of the flags. An error names the invalid flag.
func (f *imageFlags) read() (o daemon.Images, err error) {
	o = daemon.Images{Root: f.root, Providers: f.providers, Plugins: f.pluginsPath}
	o.Bounds = imagepull.Bounds{Pulls: f.workers, Registries: f.registries}
	if f.workers <= 0 {
		o.Bounds.Pulls = imagepull.MostImages
	}
	if o.Bounds.Bytes, err = bytesOf("image-bytes", f.bytes); err != nil {
		return o, err
	}
	if o.Bounds.Floor, err = bytesOf("image-disk-floor", f.floor); err != nil {
		return o, err
	}
	if o.Bounds.Floor > 0 && f.root == "" {
		return o, fmt.Errorf("--image-disk-floor needs --image-root: mount the Node's file system of images, and name the place")
	}
	o.Bounds.Window, err = windowOf(f.window)
	return o, err
}

func bytesOf(flag, text string) (uint64, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return 0, fmt.Errorf("--%s=%q is not a number of bytes, such as 10Gi", flag, text)
	}
	return uint64(quantity.Value()), nil //nolint:gosec // not negative
}

// windowOf parses a window of the day, for example "22:00-06:00 Europe/Berlin": begin, end, and the name of a time
// zone.
func windowOf(text string) (w imagepull.Window, err error) {
	if text == "" {
		return w, nil
	}
	invalid := func(err error) (imagepull.Window, error) {
		return w, fmt.Errorf("--image-window=%q is not a time of the day, such as 22:00-06:00: %w", text, err)
	}
	span, zone, _ := strings.Cut(text, " ")
	if w.Location, err = time.LoadLocation(zone); err != nil {
		return invalid(err)
	}
	from, to, _ := strings.Cut(span, "-")
	opens, err := clockTime(from)
	if err != nil {
		return invalid(err)
	}
	closes, err := clockTime(to)
	if err != nil {
		return invalid(err)
	}
	if opens == closes {
		return invalid(fmt.Errorf("begin and end are the same"))
	}
	w.Opens, w.Lasts = opens, (closes-opens+24*time.Hour)%(24*time.Hour)
	return w, nil
}

func clockTime(text string) (time.Duration, error) {
	at, err := time.Parse("15:04", text)
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, err
}
