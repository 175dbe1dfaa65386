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

	"github.com/workloadkit/workloadkit/rollout/partition"
)

// podsPerNode is the number of Pods for each simulated Node, half of the Pods that the Node can run. The other half
// is for new Pods, which are created before the replaced Pods are removed.
const podsPerNode = 250

// Options says what [Run] measures. [NewOptions] fills in the usual values. [Options.Validate] refuses invalid
// values.
type Options struct {
	// Manager is the path of the program to measure. The program gets the flag --kubeconfig, and KUBECONFIG,
	// WEBHOOK_HOST and WEBHOOK_PORT in its environment.
	Manager string
	// ManagerArgs are further arguments of the program.
	ManagerArgs []string
	// Agent is a prefix of user agents. The bench counts only requests whose user agent has this prefix. If Agent is
	// empty, the bench counts all requests of the manager's user.
	Agent string
	// Metrics is the URL of the manager's metrics. The metrics contain the durations of reconciles. Metrics may be
	// empty.
	Metrics string
	// CRDs are files and directories of CRDs to install instead of the workload's CRDs.
	CRDs []string
	// Workload is the kind to roll out.
	Workload Workload
	// Change is the name of the change made by the in-place rollout, one of [Changes].
	Change string
	// Objects is the number of workload objects. Pods are spread evenly over the objects.
	Objects int
	// Pods is the total number of Pods.
	Pods int
	// Nodes is the number of simulated Nodes. 0 means one Node for every 250 Pods, but at least 20 Nodes. If
	// [Workload.PerNode] is set, each object has as many Pods as there are Nodes.
	Nodes int
	// Passes is the number of reconciliations without changes that the phase "passes" triggers.
	Passes int
	// MaxUnavailable is the maxUnavailable of the rollouts, a number or a percentage of the Pods of each object.
	MaxUnavailable intstr.IntOrString
	// StartDelay is how long the containers of simulated Pods take to start.
	StartDelay time.Duration
	// SlowStart is how long containers take to start in the phase "slow-start". In this phase, maxUnavailable is 100%. 0
	// skips the phase.
	SlowStart time.Duration
	// NoChange is the duration of the phase "no-change".
	NoChange time.Duration
	// Phases contains the names of the phases that run after "scale-up". [Phases] lists the names. Empty means all
	// phases.
	Phases []string
	// Progress receives messages for a waiting user. On a terminal, one line of the messages is updated in place. Nil
	// means no messages.
	Progress io.Writer
}

// NewOptions returns the options for a single object of 500 Pods, which are all updated at the same time.
func NewOptions(manager string, workload Workload) Options {
	return Options{
		Manager: manager, Workload: workload, Change: changes()[0].name,
		Objects: 1, Pods: 500, Passes: 100, MaxUnavailable: intstr.FromString("100%"), NoChange: 30 * time.Second,
	}
}

// nodes returns the number of simulated Nodes to start.
func (o Options) nodes() int {
	switch {
	case o.Workload.PerNode:
		return o.Pods / max(o.Objects, 1)
	case o.Nodes == 0:
		return max(20, (o.Pods+podsPerNode-1)/podsPerNode)
	}
	return o.Nodes
}

// Validate returns an error that names each invalid field, with its value and the allowed values.
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

// validatePerNode returns an error if the options are impossible for objects that have a Pod on every Node.
func (o Options) validatePerNode() error {
	if !o.Workload.PerNode || o.Nodes == 0 && o.Pods%max(o.Objects, 1) == 0 {
		return nil
	}
	return fmt.Errorf("Nodes %d, Pods %d, Objects %d: a %s has a Pod on every Node; want no Nodes, and the same Pods for each object",
		o.Nodes, o.Pods, o.Objects, o.Workload.Name)
}

// Choice is an allowed value of an option.
type Choice struct{ Name, About string }

// Changes lists the allowed values of [Options.Change].
func Changes() []Choice {
	var out []Choice
	for _, c := range changes() {
		out = append(out, Choice{c.name, c.about})
	}
	return out
}

// Phases lists the allowed values of [Options.Phases], in the order in which the phases run.
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
