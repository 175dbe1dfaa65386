package nodefit_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/nodefit"
)

func Example() {
	template := corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}
	daemon := nodefit.DaemonSetTolerations(template.HostNetwork)
	requirements, err := nodefit.New(&template, daemon...)
	if err != nil {
		fmt.Println(err) // an invalid part fits no Node
	}
	for _, node := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}}, Spec: corev1.NodeSpec{Unschedulable: true}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"disk": "ssd"}}, Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: "gpu", Value: "a", Effect: corev1.TaintEffectNoSchedule}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n3"}},
	} {
		verdict := requirements.Fits(node)
		fmt.Printf("%s run: %t continue: %t why: [%s]\n", node.Name, verdict.Run, verdict.Continue, verdict.Why)
		if verdict.Run {
			pod := &corev1.Pod{Spec: template}
			requirements.Place(pod, node.Name)
			fmt.Println(nodefit.NodeOf(pod))
		}
	}
	// Output:
	// n1 run: true continue: true why: []
	// n1 <nil>
	// n2 run: false continue: true why: [UntoleratedTaint: Node n2: spec.tolerations: gpu=a:NoSchedule: a taint of the Node; tolerate the taint, or remove it]
	// n3 run: false continue: false why: [NodeSelectorUnmet: Node n3: spec.nodeSelector[disk]: "ssd": the Node has no such label; label the Node, or change the selector]
}
