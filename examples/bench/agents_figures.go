package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

// agentName is the beginning of the agents' user agent.
const agentName = "kruise-daemon"

// part contains the costs that were measured during one part of a run of the command "bench agents".
type part struct {
	name    string
	seconds float64
	// The CPU seconds are the CPU time used during this part. The other fields of the usages are the values at the
	// end of the part.
	server, manager, agents usage
	connections             int
	// events is the number of events that the API server has sent to all watches, and kibibytes is their size. closed is
	// the number of watches that the API server has closed because the clients were too slow.
	events, kibibytes, closed float64

	requests map[string]int // number of requests of the agents, by kind of request
	writes   int            // number of write requests of the agents
}

// usage is the resource usage of the processes of one kind, such as all agents.
type usage struct{ cpu, mebibytes, goroutines float64 }

// plus returns the sum of the usage and the usage of another process.
func (u usage) plus(more usage) usage {
	return usage{u.cpu + more.cpu, u.mebibytes + more.mebibytes, u.goroutines + more.goroutines}
}

// reading contains the values of all metrics, counted from the start of the processes.
type reading struct {
	server, manager, agents   usage
	events, kibibytes, closed float64
}

func (b *agentBench) measure(ctx context.Context, name string, do func(context.Context) error) (p part, err error) {
	if b.offset, err = audit.End(b.Plane.AuditLog()); err != nil {
		return p, err
	}
	before, err := b.read(ctx)
	if err != nil {
		return p, err
	}
	began := time.Now()
	if err := do(ctx); err != nil {
		return p, err
	}
	p = part{name: name, seconds: time.Since(began).Seconds(), requests: map[string]int{}}
	now, err := b.read(ctx)
	if err != nil {
		return p, err
	}
	p.server, p.manager, p.agents = now.server, now.manager, now.agents
	p.server.cpu, p.manager.cpu, p.agents.cpu = now.server.cpu-before.server.cpu, now.manager.cpu-before.manager.cpu, now.agents.cpu-before.agents.cpu
	p.events, p.kibibytes, p.closed = now.events-before.events, now.kibibytes-before.kibibytes, now.closed-before.closed
	if b.agents != nil {
		p.connections = b.agents.connections()
	}
	requests, _, err := audit.Read(b.Plane.AuditLog(), b.offset, agentName)
	for _, r := range requests {
		p.requests[r.String()]++
		if r.IsWrite() {
			p.writes++
		}
	}
	return p, err
}

// read reads the metrics of all processes.
func (b *agentBench) read(ctx context.Context) (r reading, err error) {
	raw, err := b.clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return r, fmt.Errorf("metrics of the API server: %w", err)
	}
	r.server, err = readUsage(raw)
	errs := []error{err}
	for name, to := range map[string]*float64{
		"apiserver_watch_events_total": &r.events, "apiserver_watch_events_sizes_sum": &r.kibibytes, "apiserver_terminated_watchers_total": &r.closed,
	} {
		*to, err = sumOf(raw, name)
		errs = append(errs, err)
	}
	if r.kibibytes /= 1024; errors.Join(errs...) != nil {
		return r, fmt.Errorf("metrics of the API server: %w", errors.Join(errs...))
	}
	if r.manager, err = usageAt(ctx, b.Metrics); err != nil || b.agents == nil {
		return r, err
	}
	for _, url := range b.agents.metrics() {
		one, err := usageAt(ctx, url)
		if err != nil {
			return r, err
		}
		r.agents = r.agents.plus(one)
	}
	return r, nil
}

func usageAt(ctx context.Context, url string) (usage, error) {
	raw, err := bodyOf(ctx, url)
	if err != nil {
		return usage{}, fmt.Errorf("metrics of %s: %w", url, err)
	}
	return readUsage(raw)
}

func readUsage(metrics []byte) (u usage, err error) {
	var errs []error
	for name, to := range map[string]*float64{"process_cpu_seconds_total": &u.cpu, "process_resident_memory_bytes": &u.mebibytes, "go_goroutines": &u.goroutines} {
		*to, err = sumOf(metrics, name)
		errs = append(errs, err)
	}
	u.mebibytes /= 1 << 20
	return u, errors.Join(errs...)
}

// sumOf returns the sum of the values of a metric over all labels.
func sumOf(metrics []byte, name string) (sum float64, err error) {
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if !found || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		sum += value
	}
	return sum, lines.Err()
}

func printParts(out io.Writer, o agentsOptions, parts []part) {
	if len(parts) == 0 {
		return
	}
	how := "in this process, with the simulated runtimes, on a watch for all"
	if o.agent != "" {
		how = "as processes, each with its own watches"
	}
	fmt.Fprintf(out, "Agents of %d Nodes, %s; %d Pods, %d requests at a time\n\n", o.nodes, how, o.pods, o.atOnce)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\tseconds\tagents: writes\tCPU s\tMiB\tgoroutines\tconnections\tmanager: CPU s\tMiB\tAPI server: CPU s\tMiB\twatch events\tKiB\twatches closed")
	for _, p := range parts {
		fmt.Fprintf(w, "%s\t%.1f\t%d\t%.2f\t%.0f\t%.0f\t%d\t%.2f\t%.0f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\n", p.name, p.seconds, p.writes, p.agents.cpu, p.agents.mebibytes,
			p.agents.goroutines, p.connections, p.manager.cpu, p.manager.mebibytes, p.server.cpu, p.server.mebibytes, p.events, p.kibibytes, p.closed)
	}
	_ = w.Flush()
	for _, p := range parts {
		if len(p.requests) > 0 {
			fmt.Fprintln(out)
			printRequests(out, p.requests, p.name+": request of the agents", "a Node", o.nodes)
		}
	}
}
