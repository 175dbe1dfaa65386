// Package stopper stops containers: a preStop hook first, and the runtime's stop with the rest of the grace period.
//
// [Stop] carries out a single stop and waits for the end. A [Stopper] runs stops apart from its callers, so that no
// worker waits for a runtime:
//
//	s := stopper.New(runtime, stopper.Options{Done: queue.Add})
//	go s.Start(ctx)                       // ends all stops with ctx, and returns after the last
//	s.Ask(key, order)                     // in a pass: a second stop of an instance is not begun
//	observed.Stops = s.Stops(key)         // in the next pass, before the instances are read
//	s.Keep(key, order.ID)                 // nobody wants the other stops of the key any more
//	s.Forget(key)                         // the Pod is gone, or the request is over
//
// Package containerrestart decides about the stops, and its Next reads the reports.
package stopper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

// HookFailed means that a preStop hook has failed or has taken longer than the grace period. The container is stopped
// all the same.
const HookFailed reason.Code = "HookFailed"

// Runtime is the container runtime of a Node. A Runtime marks errors without hope with reason.Final, and a Stop with
// any further error is tried again.
type Runtime interface {
	// Stop ends a container: by a signal first, and by force after the grace period. A container that has ended or is
	// unknown is no error. Stop returns after the end of the container.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a command in a container for a limited time, and returns the exit code.
	Exec(ctx context.Context, id string, command []string, limit time.Duration) (exitCode int32, err error)
}

// Order is a stop.
type Order struct {
	// ID of the instance to stop, and no successor.
	ID string
	// Name of the container, for reports.
	Name string
	// Hook is the preStop hook.
	Hook containerrestart.Hook
	// Grace is the time for hook and stop together.
	Grace containerrestart.Grace
}

// Times of a stop beyond the grace period.
const (
	// patience is the time for a runtime to answer, and for further attempts.
	patience = 2 * time.Minute
	// answer is the time of an attempt beyond the grace period.
	answer = 20 * time.Second
	// The rests between attempts double.
	firstRest   = 200 * time.Millisecond
	longestRest = 5 * time.Second
)

// Stop runs the hook, stops the container, and returns after the container's end. hook is the failure of the hook,
// which fails no stop. A runtime that does not answer, or fails without a final error, is asked again for two minutes
// beyond the grace period.
func Stop(ctx context.Context, runtime Runtime, clock clock.Clock, order Order) (hook, err error) {
	begin := clock.Now()
	hook = runHook(ctx, runtime, clock, order)
	for rest := firstRest; ; rest = min(2*rest, longestRest) {
		if err := ctx.Err(); err != nil {
			return hook, fmt.Errorf("stop of %s: %w", order.ID, err)
		}
		grace := order.Grace.Stop(clock.Since(begin))
		attempt, cancel := context.WithTimeout(ctx, grace+answer)
		err := runtime.Stop(attempt, order.ID, grace)
		cancel()
		if err == nil {
			return hook, nil
		}
		if reason.IsFinal(err) || clock.Since(begin) > order.Grace.Stop(0)+patience {
			return hook, fmt.Errorf("stop of %s: %w", order.ID, err)
		}
		wait(ctx, clock, rest)
	}
}

// runHook runs the hook within the grace period. Without grace no hook runs.
func runHook(ctx context.Context, runtime Runtime, clock clock.Clock, order Order) error {
	limit, runs := order.Grace.Hook()
	if !runs || order.Hook.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	switch hook := order.Hook; {
	case len(hook.Exec) > 0:
		err = execute(ctx, runtime, order, limit)
	case hook.HTTP != nil:
		err = get(ctx, *hook.HTTP)
	default:
		wait(ctx, clock, hook.Sleep)
	}
	if err != nil {
		return reason.Reason{Code: HookFailed, Detail: reason.Shorten(err.Error(), 512), Remedy: "see the preStop hook of the Pod"}.With(err)
	}
	return nil
}

// execute runs a command. The context ends with the limit, in case the runtime does not keep the limit.
func execute(ctx context.Context, runtime Runtime, order Order, limit time.Duration) error {
	code, err := runtime.Exec(ctx, order.ID, order.Hook.Exec, limit)
	switch {
	case err != nil:
		return fmt.Errorf("command %q: %w", order.Hook.Exec[0], err)
	case code != 0:
		return fmt.Errorf("command %q: exit code %d", order.Hook.Exec[0], code)
	}
	return nil
}

// longestBody is how much of an answer is read.
const longestBody = 10 << 10

// get sends the request of a hook to the Pod, and nowhere else: without a proxy, and without following a redirect.
func get(ctx context.Context, hook containerrestart.HTTPGet) error {
	url := hook.Scheme + "://" + hook.Address.String() + hook.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-lifecycle/workloadkit")
	request.Header.Set("Accept", "*/*")
	for _, h := range hook.Headers {
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
			continue
		}
		request.Header.Set(h.Name, h.Value)
	}
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, MaxResponseHeaderBytes: longestBody,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as the kubelet: Pods have certificates of their own
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, longestBody))
	err = errors.Join(err, answer.Body.Close())
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return err
}

// wait returns after a time, or with the context.
func wait(ctx context.Context, clock clock.Clock, d time.Duration) {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
