package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/partition"
)

// podsPerNode leaves half of a simulated Node for Pods that are created before others are gone.
const podsPerNode = 250

// Options say what [Run] measures. [NewOptions] fills in what is usual; what makes no sense is refused by [Options.Validate].
type Options struct {
	// Manager is the file of the program to measure. It gets the flag --kubeconfig, and KUBECONFIG, WEBHOOK_HOST and WEBHOOK_PORT in its
	// environment.
	Manager string
	// ManagerArgs are its further arguments.
	ManagerArgs []string
	// Agent counts only requests whose user agents begin so; empty counts all of the manager's user.
	Agent string
	// Metrics is the URL of the manager's metrics, which tell the time of a reconcile from the rest of a pass. It may be empty.
	Metrics string
	// CRDs are files and directories of CRDs to install instead of what the workload installs.
	CRDs []string
	// Workload is the kind that is rolled out.
	Workload Workload
	// Change is the name of what the in-place rollout changes, one of [Changes].
	Change string
	// Objects is the number of workload objects; Pods are spread evenly over them.
	Objects int
	// Pods is their number in all.
	Pods int
	// Nodes is the number of simulated Nodes; 0 means one for 250 Pods, 20 at least. With [Workload.PerNode] it is that of the Pods of an
	// object.
	Nodes int
	// Passes is how many passes over the workload phase "passes" forces.
	Passes int
	// MaxUnavailable is that of the rollouts, a number or a percentage of the Pods of each object.
	MaxUnavailable intstr.IntOrString
	// StartDelay is how long simulated containers take to start.
	StartDelay time.Duration
	// SlowStart is how long they take in phase "slow-start", whose maxUnavailable is 100%; 0 leaves the phase out.
	SlowStart time.Duration
	// NoChange is how long nothing is changed in phase "no-change".
	NoChange time.Duration
	// Phases are the names of those to run after "scale-up", some of [Phases]; empty means all.
	Phases []string
	// Progress gets lines for whoever waits, with one live line where it is a terminal. Nil means silence.
	Progress io.Writer
}

// NewOptions returns the options of a run with one object of 500 Pods that are all updated at once.
func NewOptions(manager string, workload Workload) Options {
	return Options{
		Manager: manager, Workload: workload, Change: changes()[0].name,
		Objects: 1, Pods: 500, Passes: 100, MaxUnavailable: intstr.FromString("100%"), NoChange: 30 * time.Second,
	}
}

// nodes is the number of simulated Nodes to start.
func (o Options) nodes() int {
	switch {
	case o.Workload.PerNode:
		return o.Pods / max(o.Objects, 1)
	case o.Nodes == 0:
		return max(20, (o.Pods+podsPerNode-1)/podsPerNode)
	}
	return o.Nodes
}

// Validate returns an error that names each field that makes no sense, with its value and what is allowed.
func (o Options) Validate() error {
	errs := []error{o.Workload.validate()}
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if info, err := os.Stat(o.Manager); err != nil || !info.Mode().IsRegular() {
		refuse("Manager %q: no such file", o.Manager)
	}
	if o.Pods < 1 {
		refuse("Pods %d: want 1 at least", o.Pods)
	}
	if o.Objects < 1 || o.Objects > max(o.Pods, 1) {
		refuse("Objects %d: want 1 to %d, the number of Pods", o.Objects, o.Pods)
	}
	if o.Nodes < 0 || o.Passes < 1 {
		refuse("Nodes %d, Passes %d: want 0 or more Nodes and 1 or more passes", o.Nodes, o.Passes)
	}
	errs = append(errs, o.validatePerNode())
	if o.StartDelay < 0 || o.SlowStart < 0 || o.NoChange < 0 {
		refuse("StartDelay %s, SlowStart %s, NoChange %s: want no negative time", o.StartDelay, o.SlowStart, o.NoChange)
	}
	if err := partition.Validate("MaxUnavailable", &o.MaxUnavailable); err != nil {
		errs = append(errs, err)
	}
	for _, name := range o.Phases {
		errs = append(errs, oneOf("Phases", name, Phases()))
	}
	if slices.Contains(o.Phases, slowStart) && o.SlowStart == 0 {
		refuse("Phases %s: want SlowStart too, which says how long containers take", slowStart)
	}
	return errors.Join(append(errs, oneOf("Change", o.Change, Changes()))...)
}

// validatePerNode refuses what does not go with a Pod on every Node.
func (o Options) validatePerNode() error {
	if !o.Workload.PerNode || o.Nodes == 0 && o.Pods%max(o.Objects, 1) == 0 {
		return nil
	}
	return fmt.Errorf("Nodes %d, Pods %d, Objects %d: a %s has a Pod on every Node; want no Nodes, and the same Pods for each object",
		o.Nodes, o.Pods, o.Objects, o.Workload.Name)
}

// Choice is one of the values that an option may have.
type Choice struct{ Name, About string }

// Changes lists what [Options.Change] may ask for.
func Changes() []Choice {
	var out []Choice
	for _, c := range changes() {
		out = append(out, Choice{c.name, c.about})
	}
	return out
}

// Phases lists what [Options.Phases] may ask for, in the order in which they run.
func Phases() []Choice {
	var out []Choice
	for _, p := range phases() {
		out = append(out, Choice{p.name, p.about})
	}
	return out
}

func oneOf(field, name string, choices []Choice) error {
	var names []string
	for _, c := range choices {
		if c.Name == name {
			return nil
		}
		names = append(names, c.Name)
	}
	return fmt.Errorf("%s %q: want one of %s", field, name, strings.Join(names, ", "))
}
