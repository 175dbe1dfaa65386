// Command hostile attacks a cluster from one namespace by all known means, and measures the effect on another
// namespace. The command runs on a real control plane with simulated Nodes. A user with the role edit in the
// namespace "hostile" creates the objects of package internal/hostile, writes harmful values into the namespace's
// Pods, and causes reconciles again and again. Another attacker connects to the webhooks' port and sends requests
// that no API server would send, or opens connections and sends nothing. In the namespace "quiet", a CloneSet is
// updated in place again and again, another CloneSet is changed every second, Pods with sidecars are created, and a
// client watches CloneSets in their old API version. The Pods of both namespaces get sidecars from the same
// SidecarSet. An attacker with a node agent's token creates the objects of internal/hostile too, and writes to the
// objects of its Node in bursts.
//
//	hostile --manager bin/kruise-manager --for 10m
//
// The command fails in any of these cases: the median duration of a rollout is more than 20 % longer than without the
// attack; a change or a Pod is refused; the admission of a Pod takes 10 seconds; the watch ends, or shows a change
// only after 10 seconds; a write with the agent's token succeeds that must be refused; the manager needs more memory
// than the memory limit of its container.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are the options of the command line.
type options struct {
	manager string
	lasts   time.Duration
	pods    int
	alone   int
	pause   time.Duration

	agentPause            time.Duration
	agentAlone, byWebhook bool
}

const (
	mostSlower = 1.2
	// mostBehind is the largest allowed delay of an event in a watch. By default an API server waits 10 seconds for a
	// webhook.
	mostBehind = 10 * time.Second
	// mostMemory is the memory limit of the manager's container, in MiB.
	mostMemory = 512
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var o options
	fs := flag.NewFlagSet("hostile", flag.ContinueOnError)
	fs.StringVar(&o.manager, "manager", "bin/kruise-manager", "the manager's binary")
	fs.DurationVar(&o.lasts, "for", 10*time.Minute, "how long the attack lasts")
	fs.IntVar(&o.pods, "pods", 100, "Pods of the neighbour")
	fs.IntVar(&o.alone, "alone", 10, "rollouts before the attack, to compare with")
	fs.DurationVar(&o.pause, "pause", 6*time.Minute, "time between two attacks of one kind, of which there are more than a hundred; what the API server itself needs for them is nobody's to save")
	fs.DurationVar(&o.agentPause, "agent-pause", 20*time.Second, "time between two attacks of one kind by the stolen node agent, and between two seconds of nothing but writes")
	fs.BoolVar(&o.agentAlone, "agent-alone", false, "leave all attacks but those of the stolen node agent out")
	fs.BoolVar(&o.byWebhook, "agent-webhook", false, "have the manager's webhook bind agents, in place of policies")
	err := fs.Parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// figures are the measurements of a run.
type figures struct {
	alone, attacked []time.Duration
	events          int
	lags            []time.Duration // delays of events in the watch
	pods            []time.Duration // durations of the admission of Pods in the quiet namespace
	failed          []error         // errors of refused changes and Pods in the quiet namespace
	memory          float64         // memory of the manager in MiB
	cpu             float64         // CPU seconds per second of the attack
	attacks         map[string]map[string]int
}

func run(ctx context.Context, o options, out io.Writer) error {
	c, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
		}
	}()
	n, err := c.newNeighbour(ctx, o.pods)
	if err != nil {
		return err
	}
	if err := n.beat(ctx); err != nil {
		return err
	}
	var f figures
	for range o.alone {
		took, err := n.rollOut(ctx)
		if err != nil {
			return err
		}
		f.alone = append(f.alone, took)
	}
	if err := f.attack(ctx, c, o, n); err != nil {
		return err
	}
	f.print(out)
	return f.verdict()
}

// attack measures rollouts while the attacks run.
func (f *figures) attack(ctx context.Context, c *cluster, o options, n *neighbour) error {
	agent, err := c.steal(ctx)
	if err != nil {
		return err
	}
	before, err := c.CPU()
	if err != nil {
		return err
	}
	attackCtx, end := context.WithTimeout(ctx, o.lasts)
	defer end()
	attack, err := c.attack(attackCtx, o, n.cs, agent)
	if err != nil {
		return err
	}
	for attackCtx.Err() == nil {
		took, err := n.rollOut(ctx)
		if err != nil {
			return fmt.Errorf("under attack: %w", err)
		}
		f.attacked = append(f.attacked, took)
	}
	after, err := c.CPU()
	if err != nil {
		return err
	}
	f.cpu = (after - before) / o.lasts.Seconds()
	f.attacks = attack()
	f.events, f.failed, f.lags, f.pods = n.watched()
	if err := agent.unharmed(ctx); err != nil {
		f.failed = append(f.failed, err)
	}
	f.memory, err = c.Memory()
	return err
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

func (f *figures) print(out io.Writer) {
	fmt.Fprintf(out, "rollout alone        %8.2f s at the median of %d, %.2f at most\n", median(f.alone).Seconds(), len(f.alone), slices.Max(f.alone).Seconds())
	fmt.Fprintf(out, "rollout under attack %8.2f s at the median of %d, %.2f at most\n", median(f.attacked).Seconds(), len(f.attacked), slices.Max(f.attacked).Seconds())
	fmt.Fprintf(out, "watch of v1alpha1    %8d events, %.2f s behind at the median of %d changes, %.2f at most; %d changes were refused\n",
		f.events, median(f.lags).Seconds(), len(f.lags), slices.Max(f.lags).Seconds(), len(f.failed))
	fmt.Fprintf(out, "Pods with sidecars   %8.3f s to be admitted at the median of %d, %.2f at most\n", median(f.pods).Seconds(), len(f.pods), slices.Max(f.pods).Seconds())
	fmt.Fprintf(out, "manager              %8.0f MiB at most, %.2f of a core under attack\n", f.memory, f.cpu)
	for _, name := range sortedKeys(f.attacks) {
		fmt.Fprintf(out, "%-48s", name)
		for _, answer := range sortedKeys(f.attacks[name]) {
			fmt.Fprintf(out, " %s x%d", answer, f.attacks[name][answer])
		}
		fmt.Fprintln(out)
	}
}

// verdict returns an error for each limit that was exceeded.
func (f *figures) verdict() error {
	var errs []error
	if ratio := median(f.attacked).Seconds() / median(f.alone).Seconds(); ratio > mostSlower {
		errs = append(errs, fmt.Errorf("rollouts take %.2f times as long as alone, at most %.2f is wanted", ratio, mostSlower))
	}
	if worst := slices.Max(f.lags); worst > mostBehind {
		errs = append(errs, fmt.Errorf("the watch was %v behind, at most %v is wanted", worst, mostBehind))
	}
	if worst := slices.Max(f.pods); worst > mostBehind {
		errs = append(errs, fmt.Errorf("a Pod took %v to be admitted, at most %v is wanted", worst, mostBehind))
	}
	for _, err := range f.failed {
		errs = append(errs, fmt.Errorf("the quiet namespace: %w", err))
	}
	errs = append(errs, succeeded(f.attacks)...)
	if f.memory > mostMemory {
		errs = append(errs, fmt.Errorf("the manager needs %.0f MiB, at most %d is wanted", f.memory, mostMemory))
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
