// Names upstream's suite, so that what its tests import is among this module's requirements.
package e2e

import _ "k8s.io/kubernetes/test/e2e"
