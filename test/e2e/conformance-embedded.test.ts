import { startEmbeddedProduct } from '../support/product.ts';
import { describeConformance } from './conformance.ts';

describeConformance('the embedded log', startEmbeddedProduct);
