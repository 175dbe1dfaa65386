package validation_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

func Example() {
	value := intstr.FromString("5")
	for _, err := range validation.Count(&value, field.NewPath("spec", "maxUnavailable")) {
		fmt.Println(err)
	}
	// Output:
	// spec.maxUnavailable: Invalid value: "5": must be an integer from 0 to 2147483647, or such a number with or without decimals and "%"
}

func TestCount(t *testing.T) {
	tests := []struct {
		value intstr.IntOrString
		ok    bool
	}{
		{intstr.FromInt32(0), true},
		{intstr.FromInt32(math.MaxInt32), true},
		{intstr.FromInt32(-1), false},
		{intstr.FromString("0%"), true},
		{intstr.FromString("12.5%"), true},
		{intstr.FromString("100%"), true},
		{intstr.FromString("250%"), true},
		{intstr.FromString("2147483647%"), true},
		{intstr.FromString("2147483647.1%"), false},
		{intstr.FromString("2147483648%"), false},
		{intstr.FromString("999999999999%"), false},
		{intstr.FromString(strings.Repeat("9", 1<<16) + "%"), false},
		{intstr.FromString("0." + strings.Repeat("0", 1<<16) + "%"), false},
		{intstr.FromString("5"), false},
		{intstr.FromString(""), false},
		{intstr.FromString("%"), false},
		{intstr.FromString("-5%"), false},
		{intstr.FromString("+5%"), false},
		{intstr.FromString("5%%"), false},
		{intstr.FromString("5 %"), false},
		{intstr.FromString("5%\n"), false},
		{intstr.FromString("NaN%"), false},
		{intstr.FromString("Inf%"), false},
		{intstr.FromString("1e2%"), false},
		{intstr.FromString("0x1%"), false},
		{intstr.FromString("1.%"), false},
		{intstr.FromString(".5%"), false},
		{intstr.FromString("٣%"), false},
		{intstr.IntOrString{Type: 7}, false},
	}
	for _, tc := range tests {
		name := fmt.Sprintf("V-16 %.20s", tc.value.String())
		t.Run(name, func(t *testing.T) {
			errs := validation.Count(&tc.value, field.NewPath("x"))
			if (len(errs) == 0) != tc.ok {
				t.Errorf("Count() = %v, want ok: %t", errs, tc.ok)
			}
			for _, err := range errs {
				if len(err.Error()) > 300 {
					t.Errorf("error of %d bytes", len(err.Error()))
				}
			}
		})
	}
	if errs := validation.Count(nil, field.NewPath("x")); len(errs) > 0 {
		t.Errorf("Count(nil) = %v", errs)
	}
}

func TestAtLeastOne(t *testing.T) {
	tests := []struct {
		value intstr.IntOrString
		total int32
		want  bool
	}{
		{intstr.FromInt32(0), 10, false},
		{intstr.FromInt32(1), 0, true},
		{intstr.FromString("0%"), 10, false},
		{intstr.FromString("0.000%"), 10, false},
		{intstr.FromString("0.001%"), 1, true},
		{intstr.FromString("50%"), 0, false},
		{intstr.FromString("2147483647%"), math.MaxInt32, true},
		{intstr.FromString("5"), 10, false},
		{intstr.FromInt32(-1), 10, false},
	}
	for _, tc := range tests {
		if got := validation.AtLeastOne(tc.value, tc.total); got != tc.want {
			t.Errorf("V-13 AtLeastOne(%s, %d) = %t, want %t", tc.value.String(), tc.total, got, tc.want)
		}
	}
}

func TestPodTemplate(t *testing.T) {
	const app = `{name: app, image: a}`
	tests := []struct {
		name string
		spec string
		want []string
	}{
		{name: "V-12 claim as volume", spec: `{containers: [{name: app, image: a, volumeMounts: [{name: claim, mountPath: /d}]}]}`},
		{name: "no containers", spec: `{}`, want: []string{"containers: Required value"}},
		{
			name: "names and images",
			spec: `{containers: [{name: A, image: ""}, {name: b, image: " x"}], initContainers: [{name: b, image: a}, {image: a}]}`,
			want: []string{
				"containers[0].name: Invalid value", "containers[0].image: Required value",
				"containers[1].image: Invalid value", "initContainers[0].name: Duplicate value",
				"initContainers[1].name: Required value",
			},
		},
		{
			name: "long-running", spec: `{containers: [` + app + `], restartPolicy: OnFailure, activeDeadlineSeconds: 5}`,
			want: []string{"restartPolicy: Unsupported value", "activeDeadlineSeconds: Forbidden"},
		},
		{
			name: "closed sets",
			spec: `{containers: [{name: app, image: a, imagePullPolicy: Often, terminationMessagePolicy: X}], dnsPolicy: X,
				terminationGracePeriodSeconds: -1}`,
			want: []string{
				"containers[0].imagePullPolicy: Unsupported value", "containers[0].terminationMessagePolicy: Unsupported value",
				"dnsPolicy: Unsupported value", "terminationGracePeriodSeconds: Invalid value",
			},
		},
		{
			name: "names of other objects",
			spec: `{containers: [` + app + `], serviceAccountName: A, priorityClassName: "a b", nodeName: "/", hostname: a.b,
				subdomain: A, runtimeClassName: A, readinessGates: [{conditionType: "a b"}], dnsPolicy: None}`,
			want: []string{
				"dnsConfig.nameservers: Required value", "serviceAccountName: Invalid value", "priorityClassName: Invalid value",
				"nodeName: Invalid value", "hostname: Invalid value", "subdomain: Invalid value",
				"runtimeClassName: Invalid value", "readinessGates[0].conditionType: Invalid value",
			},
		},
		{
			name: "ports",
			spec: `{containers: [{name: app, image: a, ports: [{containerPort: 0}, {containerPort: 80, name: web},
				{containerPort: 81, name: web, protocol: X}, {containerPort: 82, name: "Not A Port"},
				{containerPort: 83, hostPort: 70000}, {containerPort: 84, hostPort: 9}]},
				{name: b, image: a, ports: [{containerPort: 84, hostPort: 9, protocol: TCP}]}]}`,
			want: []string{
				"containers[0].ports[0].containerPort: Invalid value", "containers[0].ports[2].protocol: Unsupported value",
				"containers[0].ports[2].name: Duplicate value", "containers[0].ports[3].name: Invalid value",
				"containers[0].ports[4].hostPort: Invalid value", "containers[1].ports[0].hostPort: Duplicate value",
			},
		},
		{
			name: "host network",
			spec: `{hostNetwork: true, containers: [{name: app, image: a, ports: [{containerPort: 80}, {containerPort: 81, hostPort: 82}]}]}`,
			want: []string{"containers[0].ports[1].hostPort: Invalid value"},
		},
		{
			name: "environment",
			spec: `{containers: [{name: app, image: a, env: [{name: ""}, {name: "A=B"}, {name: ok, value: x, valueFrom: {fieldRef: {fieldPath: a}}},
				{name: b, valueFrom: {}}, {name: c, valueFrom: {fieldRef: {}}}, {name: d, valueFrom: {secretKeyRef: {name: s}}},
				{name: e, valueFrom: {configMapKeyRef: {name: s}}}]}]}`,
			want: []string{
				"containers[0].env[0].name: Required value", "containers[0].env[1].name: Invalid value",
				"containers[0].env[2].valueFrom: Invalid value", "containers[0].env[3].valueFrom: Invalid value",
				"containers[0].env[4].valueFrom.fieldRef.fieldPath: Required value",
				"containers[0].env[5].valueFrom.secretKeyRef.key: Required value",
				"containers[0].env[6].valueFrom.configMapKeyRef.key: Required value",
			},
		},
		{
			name: "volumes and mounts",
			spec: `{volumes: [{name: a}, {name: a}, {name: B}, {name: c, emptyDir: {}, hostPath: {path: /}}],
				containers: [{name: app, image: a, volumeMounts: [{name: none, mountPath: /x}, {name: a, mountPath: /x},
				{name: a}, {name: a, mountPath: /y, subPath: /abs}, {name: a, mountPath: /z, subPath: a/../b},
				{name: a, mountPath: /w, subPath: a, subPathExpr: b}, {mountPath: /v}],
				volumeDevices: [{name: c, devicePath: /z}]}]}`,
			want: []string{
				"volumes[1].name: Duplicate value", "volumes[2].name: Invalid value", "volumes[3]: Invalid value",
				"containers[0].volumeMounts[0].name: Not found", "containers[0].volumeMounts[1].mountPath: Invalid value",
				"containers[0].volumeMounts[2].mountPath: Required value", "containers[0].volumeMounts[3].subPath: Invalid value",
				"containers[0].volumeMounts[4].subPath: Invalid value", "containers[0].volumeMounts[5].subPathExpr: Invalid value",
				"containers[0].volumeMounts[6].name: Required value", "containers[0].volumeDevices[0].devicePath: Invalid value",
			},
		},
		{
			name: "resources",
			spec: `{containers: [{name: app, image: a, resources: {limits: {cpu: 1, memory: -1}, requests: {cpu: 2, "a b": 1}}}]}`,
			want: []string{
				"containers[0].resources.limits[memory]: Invalid value", "containers[0].resources.requests: Invalid value",
				"containers[0].resources.requests[cpu]: Invalid value",
			},
		},
		{
			name: "probes and hooks",
			spec: `{containers: [{name: app, image: a, livenessProbe: {httpGet: {port: 0, scheme: FTP}, successThreshold: 2, periodSeconds: -1},
				readinessProbe: {terminationGracePeriodSeconds: 1, tcpSocket: {port: http}},
				startupProbe: {exec: {}, terminationGracePeriodSeconds: 0}, lifecycle: {postStart: {sleep: {seconds: 1}},
				preStop: {exec: {command: [x]}, tcpSocket: {port: 1}}}}]}`,
			want: []string{
				"containers[0].livenessProbe.httpGet.port: Invalid value", "containers[0].livenessProbe.httpGet.scheme: Unsupported value",
				"containers[0].livenessProbe.periodSeconds: Invalid value", "containers[0].livenessProbe.successThreshold: Invalid value",
				"containers[0].readinessProbe.terminationGracePeriodSeconds: Forbidden",
				"containers[0].startupProbe.exec.command: Required value",
				"containers[0].startupProbe.terminationGracePeriodSeconds: Invalid value",
				"containers[0].lifecycle.preStop: Invalid value",
			},
		},
		{
			name: "init containers and sidecars",
			spec: `{containers: [{name: app, image: a, ports: [{containerPort: 1, hostPort: 1}]}], initContainers: [
				{name: once, image: a, livenessProbe: {grpc: {port: 1}}, lifecycle: {}, ports: [{containerPort: 1, hostPort: 1}]},
				{name: side, image: a, restartPolicy: Always, livenessProbe: {grpc: {port: 1}}, ports: [{containerPort: 1, hostPort: 1}]}],
				ephemeralContainers: [{name: x}]}`,
			want: []string{
				"initContainers[0].lifecycle: Forbidden", "initContainers[0].livenessProbe: Forbidden",
				"ephemeralContainers: Forbidden",
			},
		},
		{
			name: "scheduling",
			spec: `{containers: [` + app + `], nodeSelector: {"a b": c}, tolerations: [{}, {operator: Exists, value: x, key: a},
				{key: a, tolerationSeconds: 1}, {key: a, operator: X, effect: X}],
				topologySpreadConstraints: [{maxSkew: 0}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: X}]}`,
			want: []string{
				"nodeSelector: Invalid value", "tolerations[0].operator: Invalid value", "tolerations[1].value: Invalid value",
				"tolerations[2].effect: Invalid value", "tolerations[3].operator: Unsupported value",
				"tolerations[3].effect: Unsupported value", "topologySpreadConstraints[0].maxSkew: Invalid value",
				"topologySpreadConstraints[0].topologyKey: Required value",
				"topologySpreadConstraints[0].whenUnsatisfiable: Required value",
				"topologySpreadConstraints[1].whenUnsatisfiable: Unsupported value",
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var template corev1.PodTemplateSpec
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &template.Spec); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range validation.PodTemplate(&template, []string{"claim"}, field.NewPath("t")) {
				got = append(got, strings.TrimPrefix(err.Field, "t.spec.")+": "+err.Type.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodTemplateMetadata(t *testing.T) {
	var template corev1.PodTemplateSpec
	template.Labels = map[string]string{"app": "not a value"}
	template.Annotations = map[string]string{"not a key": ""}
	template.Spec.Containers = []corev1.Container{{Name: "app", Image: "a"}}
	var got []string
	for _, err := range validation.PodTemplate(&template, nil, field.NewPath("t")) {
		got = append(got, err.Field)
	}
	if diff := cmp.Diff([]string{"t.labels", "t.annotations"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzCount(f *testing.F) {
	for _, seed := range []string{"5", "5%", "12.5%", "NaN%", "999999999999%", "-1%", "1e9%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := intstr.FromString(text)
		ok := len(validation.Count(&value, field.NewPath("x"))) == 0
		if !ok && validation.AtLeastOne(value, 1) {
			t.Errorf("%q is refused and counts", text)
		}
		if ok && !strings.HasSuffix(text, "%") {
			t.Errorf("%q accepted without percent", text)
		}
	})
}
