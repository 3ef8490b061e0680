// SPDX-License-Identifier: Apache-2.0

package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

const (
	componentCleanup    = "cleanup"
	cleanupRecordPrefix = "sless-cleanup-"
)

// CleanupRecordLabels select the records of the clean-up.
func CleanupRecordLabels() map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless, componentLabel: componentCleanup}
}

// CleanupRecordMeta names the ConfigMap that tells what is left of a user namespace in the object store and the registry.
func CleanupRecordMeta(builds, namespace string) metav1.ObjectMeta {
	labels := CleanupRecordLabels()
	labels[v1alpha1.LabelNamespace] = namespace
	return metav1.ObjectMeta{Namespace: builds, Name: cleanupRecordPrefix + namespace, Labels: labels}
}
