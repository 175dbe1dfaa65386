package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
)

// validate returns an error for each invalid value, with the flag, the value and the allowed values. No value is
// replaced silently: a zero on the command line is an error, although in the options of a package a zero means the
// default.
func (f *flags) validate() error {
	problems := []error{f.validateLeaderElection(), f.validateRates()}
	refuse := func(when bool, flag string, value any, want string) {
		if when {
			problems = append(problems, fmt.Errorf("--%s %v: want %s", flag, value, want))
		}
	}
	if f.set.Namespace != "" {
		problems = append(problems, named("namespace", f.set.Namespace, validation.IsDNS1123Label))
	}
	address := func(flag, value string) {
		refuse(!isAddress(value), flag, strconv.Quote(value), "an address such as :8080 or localhost:8080, or 0 for none")
	}
	address("metrics-addr", f.set.MetricsAddress)
	address("health-probe-addr", f.set.HealthAddress)
	address("pprof-addr", f.set.PprofAddress)
	refuse(f.set.MetricsSecure && (f.set.MetricsAddress == "" || f.set.MetricsAddress == "0"), "metrics-secure", true, "an address in --metrics-addr")
	positive := func(flag string, value time.Duration) { refuse(value <= 0, flag, value, "more than nothing") }
	positive("controller-cache-sync-timeout", f.set.CacheSyncTimeout)
	positive("expectation-timeout", f.set.ExpectationTimeout)
	positive("webhook-initialize-timeout", f.initializeTimeout)
	positive("webhook-cert-overlap", f.overlap)
	refuse(f.listenPort < 0 || f.listenPort > 65535, "webhook-listen-port", f.listenPort, "a port, or 0 for WEBHOOK_PORT")
	for _, k := range f.set.Kinds {
		if k.Workers != nil {
			refuse(*k.Workers < 1, k.WorkersFlag(), *k.Workers, "at least 1")
		}
	}
	for _, l := range f.set.Loops {
		refuse(*l.Workers < 1, l.Flag, *l.Workers, "at least 1")
	}
	return errors.Join(problems...)
}

// validateLeaderElection checks the values for the leader election at the start. Without this check, client-go would
// refuse invalid values only after a connection to the API server.
func (f *flags) validateLeaderElection() error {
	e := f.leader
	problems := []error{
		named("leader-election-namespace", e.Namespace, validation.IsDNS1123Label),
		named("leader-election-id", e.ID, validation.IsDNS1123Subdomain),
	}
	if f.lock != "leases" {
		problems = append(problems, fmt.Errorf("--leader-election-resource-lock %q: want leases", f.lock))
	}
	switch jittered := time.Duration(leaderelection.JitterFactor * float64(e.RetryPeriod)); {
	case e.RetryPeriod <= 0:
		problems = append(problems, fmt.Errorf("--leader-election-retry-period %v: want more than nothing", e.RetryPeriod))
	case e.RenewDeadline <= jittered:
		problems = append(problems, fmt.Errorf("--leader-election-renew-deadline %v: want more than %v, which is --leader-election-retry-period %v with jitter",
			e.RenewDeadline, jittered, e.RetryPeriod))
	case e.LeaseDuration <= e.RenewDeadline:
		problems = append(problems, fmt.Errorf("--leader-election-lease-duration %v: want more than --leader-election-renew-deadline %v", e.LeaseDuration, e.RenewDeadline))
	case e.LeaseDuration < time.Second:
		problems = append(problems, fmt.Errorf("--leader-election-lease-duration %v: want at least 1s, because a Lease counts seconds", e.LeaseDuration))
	}
	return errors.Join(problems...)
}

func (f *flags) validateRates() error {
	var problems []error
	refuse := func(when bool, flag string, value any, want string) {
		if when {
			problems = append(problems, fmt.Errorf("--%s %v: want %s", flag, value, want))
		}
	}
	r := f.set.RateLimit
	refuse(!isRate(float64(f.set.QPS)), "rest-config-qps", fmt.Sprintf("%+v", f.set.QPS), "a number, or 0 for no limit")
	refuse(f.set.Burst < 0, "rest-config-burst", f.set.Burst, "0 or more")
	refuse(r.BaseDelay <= 0, "rate-limiter-base-delay", r.BaseDelay, "more than nothing")
	refuse(r.MaxDelay < r.BaseDelay || r.MaxDelay <= 0, "rate-limiter-max-delay", r.MaxDelay,
		fmt.Sprintf("at least --rate-limiter-base-delay, which is %v", r.BaseDelay))
	refuse(!isRate(r.QPS) || r.QPS == 0, "rate-limiter-qps", r.QPS, "a number above 0")
	refuse(r.BucketSize < 1, "rate-limiter-bucket-size", r.BucketSize, "at least 1")
	return errors.Join(problems...)
}

// named returns an error unless the value of a flag is a valid name.
func named(flag, value string, check func(string) []string) error {
	if problems := check(value); len(problems) > 0 {
		return fmt.Errorf("--%s %q: %s", flag, value, strings.Join(problems, "; "))
	}
	return nil
}

func isRate(value float64) bool { return value >= 0 && !math.IsInf(value, 1) }

// isAddress reports whether the value is an address on which a server can listen. Empty or 0 is also accepted, and
// means that no server is started.
func isAddress(address string) bool {
	if address == "" || address == "0" {
		return true
	}
	_, port, err := net.SplitHostPort(address)
	n, notANumber := strconv.Atoi(port)
	return err == nil && notANumber == nil && n >= 0 && n <= 65535
}
