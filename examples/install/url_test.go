package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// clientConfigs returns the addresses that the API server calls, from CRDs and webhook configurations.
func clientConfigs(t testing.TB, objects map[string]*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, obj := range objects {
		if config, ok, _ := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook", "clientConfig"); ok {
			out[obj.GetName()] = config
		}
		webhooks, _, _ := unstructured.NestedSlice(obj.Object, "webhooks")
		for _, item := range webhooks {
			config, _, _ := unstructured.NestedMap(item.(map[string]any), "clientConfig")
			out[item.(map[string]any)["name"].(string)] = config
		}
	}
	if len(out) == 0 {
		t.Fatal("nothing is called")
	}
	return out
}

// called returns the objects that contain an address for the API server.
func called(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for name, obj := range objects {
		if obj.GetKind() == "CustomResourceDefinition" || strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			out[name] = obj
		}
	}
	return out
}

// urls returns the URLs by which the manager replaces Services.
func urls(t testing.TB, port int) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, config := range clientConfigs(t, parse(t, kustomize(t))) {
		path, _, _ := unstructured.NestedString(config, "service", "path")
		out[name] = "https://" + net.JoinHostPort("localhost", strconv.Itoa(port)) + path
	}
	return out
}

// checkURLs checks that CRDs and webhook configurations contain the URL of the manager and its CA bundle, and no
// Service.
func (c *cluster) checkURLs(when string, objects map[string]*unstructured.Unstructured, port int) {
	c.t.Helper()
	got := map[string]string{}
	for name, config := range clientConfigs(c.t, c.read(objects)) {
		got[name], _ = config["url"].(string)
		if config["service"] != nil || config["caBundle"] == nil {
			c.t.Errorf("%s: %s has %v", when, name, config)
		}
	}
	if diff := cmp.Diff(urls(c.t, port), got); diff != "" {
		c.t.Errorf("%s: URLs (-want +got):\n%s", when, diff)
	}
}

// manage runs a manager at the port until all CRDs and webhook configurations contain the manager's CA bundle.
func (c *cluster) manage(objects map[string]*unstructured.Unstructured, port int) {
	c.t.Helper()
	stop := runManager(c.t, env.Start(c.t).Config(), func(o *manager.Options) { o.Webhooks.Port = port })
	defer stop()
	controlplanetest.Eventually(c.t, time.Minute, func(context.Context) error {
		var errs error
		for name, config := range clientConfigs(c.t, c.read(objects)) {
			if config["url"] == nil || config["caBundle"] == nil {
				errs = errors.Join(errs, fmt.Errorf("%s: %v", name, config))
			}
		}
		return errs
	})
}

// atURL renders the manifests for a manager at a port of this machine, as the comment in the manifests says.
func atURL(t testing.TB, port int) (text, file string) {
	t.Helper()
	text = strings.ReplaceAll(must(t)(kubectl(t, "kustomize", "examples/config/webhook-url")), "localhost:19443", "localhost:"+strconv.Itoa(port))
	file = filepath.Join(t.TempDir(), "webhook-url.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return text, file
}

// TestWebhooksAtAURLInstallAgain: the API server calls a manager outside the cluster by URL. Users can apply the
// manifests again after the manager has changed the objects, and also over manifests with a Service.
func TestWebhooksAtAURLInstallAgain(t *testing.T) {
	for _, how := range [][]string{{"apply"}, {"apply", "--server-side"}} {
		for _, before := range [][]string{nil, {"-k", "examples/config/crd"}} {
			t.Run(fmt.Sprint(how, before), func(t *testing.T) {
				c := fresh(t)
				port := freePort(t)
				text, file := atURL(t, port)
				objects := parse(t, text)
				apply := func(args ...string) {
					t.Helper()
					must(t)(kubectl(t, append(append([]string{"--kubeconfig", c.kubeconfig}, how...), args...)...))
				}
				if before != nil {
					apply("-k", "examples/config/crd")
					apply("-k", "examples/config/webhook")
				} else {
					apply("-f", file)
				}
				c.untilRunning(objects)
				c.manage(objects, port)
				for i := range 3 {
					apply("-f", file)
					c.checkURLs(fmt.Sprint("applied again, ", i), objects, port)
				}
			})
		}
	}
}

// TestHelmReleaseAtAURL: a release of the chart whose manager is called by URL can be upgraded, also from a release
// with a Service.
func TestHelmReleaseAtAURL(t *testing.T) {
	for _, before := range []string{"", "localhost"} {
		t.Run("from host "+before, func(t *testing.T) {
			c := fresh(t)
			port := freePort(t)
			elsewhere := "helm-" + rand.String(5)
			upgrade := func(host string) {
				t.Helper()
				must(t)(helm(t, "upgrade", "--install", "kruise", "examples/charts/kruise", "--take-ownership", "--force-conflicts",
					"--kubeconfig", c.kubeconfig, "--namespace", "default", "--set", "installation.namespace="+elsewhere,
					"--set", "manager.webhook.host="+host, "--set", "manager.webhook.port="+strconv.Itoa(port)))
			}
			t.Cleanup(func() {
				must(t)(helm(t, "uninstall", "kruise", "--ignore-not-found", "--kubeconfig", c.kubeconfig, "--namespace", "default"))
			})
			upgrade(before)
			objects := called(parse(t, must(t)(template(t))))
			c.untilRunning(objects)
			c.manage(objects, port)
			for i := range 3 {
				upgrade("localhost")
				c.checkURLs(fmt.Sprint("upgraded, ", i), objects, port)
			}
		})
	}
}

// TestChartCallsAURL: with a host in the values, the chart passes the same host to the manager and to the API server.
func TestChartCallsAURL(t *testing.T) {
	for _, tc := range []struct{ host, want string }{
		{"kruise.test", "https://kruise.test:9876/convert"},
		{"fd00::1", "https://[fd00::1]:9876/convert"},
	} {
		objects := parse(t, must(t)(template(t, fmt.Sprintf("manager.webhook.host=%q", tc.host))))
		for _, crd := range kind.ConvertedCRDs(kinds.All()) {
			config := clientConfigs(t, objects)[crd]
			if config["url"] != tc.want || config["service"] != nil {
				t.Errorf("%s: conversion of %s is called at %v, want %s", tc.host, crd, config, tc.want)
			}
		}
		raw, err := json.Marshal(find(t, objects, "Deployment", "").Object)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), fmt.Sprintf(`{"name":"WEBHOOK_HOST","value":%q}`, tc.host)) {
			t.Errorf("%s: the manager is not told", tc.host)
		}
	}
}

// TestURLManifestsNameWhatTheManagerWrites: the manifests contain exactly the URLs that the manager writes into the
// webhook configurations and CRDs.
func TestURLManifestsNameWhatTheManagerWrites(t *testing.T) {
	got := map[string]string{}
	for name, config := range clientConfigs(t, parse(t, must(t)(kubectl(t, "kustomize", "examples/config/webhook-url")))) {
		got[name], _ = config["url"].(string)
		if len(config) != 1 {
			t.Errorf("%s is called at %v", name, config)
		}
	}
	if diff := cmp.Diff(urls(t, 19443), got); diff != "" {
		t.Errorf("URLs (-want +got):\n%s", diff)
	}
}
