// Package stopper stops containers: first the preStop hook runs, then the runtime stops the container within the
// remaining grace period.
//
// [Stop] carries out a single stop and returns when the container has ended. A [Stopper] runs stops in separate
// goroutines, so that no worker waits for a container runtime:
//
//	s := stopper.New(runtime, stopper.Options{Done: queue.Add})
//	go s.Start(ctx)                       // ends all stops with ctx, and returns after the last
//	s.Ask(key, order)                     // in a reconcile: no second stop of the same instance begins
//	observed.Stops = s.Stops(key)         // in the next reconcile, before the instances are read
//	s.Keep(key, order.ID)                 // cancels all other stops of the key
//	s.Forget(key)                         // the Pod is gone, or the request is over
//
// Package containerrestart decides which containers to stop, and containerrestart.Next takes the result of
// Stopper.Stops.
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
// nevertheless.
const HookFailed reason.Code = "HookFailed"

// Runtime is the container runtime of a Node. A Runtime marks errors that a retry does not repair with reason.Final;
// after any other error, the stop is retried.
type Runtime interface {
	// Stop stops a container: by a signal first, and by force after the grace period. If the container has ended or
	// does not exist, Stop returns no error. Stop returns when the container has ended.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a command in a container for at most the given time, and returns the exit code.
	Exec(ctx context.Context, id string, command []string, limit time.Duration) (exitCode int32, err error)
}

// Order is the instance to stop, with its hook and grace period.
type Order struct {
	// ID is the ID of the instance to stop; later instances are not stopped.
	ID string
	// Name is the name of the container, for messages.
	Name string
	// Hook is the preStop hook.
	Hook containerrestart.Hook
	// Grace is the grace period for the hook and the stop together.
	Grace containerrestart.Grace
}

// These are timeouts beyond the grace period.
const (
	// patience is how long a stop is retried if the runtime does not respond.
	patience = 2 * time.Minute
	// answer is how much longer than the grace period a single attempt may take.
	answer = 20 * time.Second
	// firstRest and longestRest are the first and the longest wait between attempts. The waits double.
	firstRest   = 200 * time.Millisecond
	longestRest = 5 * time.Second
)

// Stop runs the hook, stops the container, and returns when the container has ended. hook is the error of the hook,
// which does not prevent the stop. If a runtime does not respond, or returns an error that is not final, the stop is
// retried for two minutes beyond the grace period.
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

// runHook runs the hook for at most the grace period. If the grace period is zero, no hook is run.
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

// execute runs the command of a hook. The context also ends at the limit, in case the runtime ignores its timeout.
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

// longestBody is how many bytes of a response body are read.
const longestBody = 10 << 10

// get sends the HTTP request of a hook directly to the Pod, without a proxy, and does not follow redirects.
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
			// Certificates are not verified, as in the kubelet, because Pods often use self-signed certificates.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
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

// wait returns when the duration d has passed, or when the context ends.
func wait(ctx context.Context, clock clock.Clock, d time.Duration) {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
