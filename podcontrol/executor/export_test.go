package executor

import corev1 "k8s.io/api/core/v1"

// IsUnfinished reports whether a change of the owner's spec enqueues the Pod.
func (x *Executor[O]) IsUnfinished(pod *corev1.Pod) bool { return x.isUnfinished(pod) }
