import { startEmbeddedProduct } from '../support/product.ts';
import { describeConflicts } from './conflicts.ts';

describeConflicts('npm start', startEmbeddedProduct);
